// SPDX-License-Identifier: Apache-2.0
// Reads the types and namespaces of the whole repository.
#include "architecture/names.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "architecture/house.hpp"
#include "architecture/repository.hpp"

namespace lockstep::architecture {
namespace {

/// Nested types that are always written behind their owner's name, and mean the same in each.
const std::set<std::string> qualified = {"Kind", "NoSync"};

/// Returns the sources without programs that compare the product with others.
std::vector<SourceFile> product_files() {
  std::vector<SourceFile> files = source_files();
  std::erase_if(files, [](const SourceFile& file) { return file.path.starts_with("mpi-scripts/"); });
  return files;
}

std::string place_of(const SourceFile& file, const TypeDefinition& type) {
  return file.path + ":" + std::to_string(type.line);
}

/// A reader of the public headers learns what a name means, and it means the same everywhere. Types that are nested in
/// types of the implementation have their owner's name in front of them, so they may repeat a name.
TEST(Names, APublicTypeIsDefinedOnce) {
  std::map<std::string, std::string> of_namespace;  // public types by name, and where they are defined
  std::map<std::string, std::string> of_headers;    // also those in other types
  for (const SourceFile& file : product_files()) {
    if (!file.path.starts_with("include/")) continue;
    for (const TypeDefinition& type : type_definitions(file.text)) {
      if (type.is_private || qualified.contains(type.name)) continue;
      const auto [other, is_new] = of_headers.emplace(type.name, place_of(file, type));
      if (!is_new) ADD_FAILURE() << place_of(file, type) << " and " << other->second << " both define " << type.name;
      if (!type.is_nested) of_namespace.emplace(type.name, place_of(file, type));
    }
  }
  EXPECT_GT(of_namespace.size(), 100U);
  for (const SourceFile& file : product_files()) {
    if (file.path.starts_with("include/")) continue;
    for (const TypeDefinition& type : type_definitions(file.text)) {
      const auto found = of_namespace.find(type.name);
      if (found != of_namespace.end() && !type.is_nested)
        ADD_FAILURE() << place_of(file, type) << " defines " << type.name << ", a public type of " << found->second;
    }
  }
}

TEST(Names, TheTopFolderIsTheNamespace) {
  std::set<std::string> folders;
  for (const SourceFile& file : product_files()) folders.insert(top_folder(file.path));
  EXPECT_GT(folders.size(), 15U);
  for (const SourceFile& file : product_files())
    for (const std::string& name : namespaces(file.text))
      if (!may_open(file.path, name, {folders.begin(), folders.end()}))
        ADD_FAILURE() << file.path << " is in " << name << " instead of lockstep::" << top_folder(file.path);
}

TEST(NameRules, FindTypesWithTheirSections) {
  const auto types = type_definitions(
      "class Ahead;\n"
      "struct Outer final : Base {\n"
      "  enum class Inner { one, two };\n"
      "  void f(struct Ahead* a);\n"
      "};\n"
      "class Closed {\n"
      " public:\n"
      "  struct Open {\n"
      "    int i;\n"
      "  };\n"
      " private:\n"
      "  struct Hidden {};\n"
      "};\n"
      "struct Closed::Hidden2 {\n"
      "};\n"
      "enum Flag : int {\n"
      "};\n"
      "struct Last {};  // struct Comment {\n");
  std::vector<std::string> found;
  for (const TypeDefinition& type : types)
    found.push_back(type.name + (type.is_nested ? " nested" : "") + (type.is_private ? " private" : ""));
  EXPECT_EQ(found, (std::vector<std::string>{"Outer", "Inner nested", "Closed", "Open nested", "Hidden nested private",
                                             "Flag", "Last"}));
}

TEST(NameRules, KnowTheNamespaceOfAFolder) {
  const std::vector<std::string> folders = {"base", "comm", "backends", "comm_bench"};
  EXPECT_TRUE(may_open("src/backends/plan/a.cpp", "lockstep::backends", folders));
  EXPECT_TRUE(may_open("include/lockstep/backends/a.hpp", "lockstep::backends::detail", folders));
  EXPECT_TRUE(may_open("apps/comm-bench/a.cpp", "lockstep::comm_bench", folders));
  EXPECT_TRUE(may_open("kernels/a.cpp", "lockstep::kernels", folders));
  EXPECT_TRUE(may_open("src/comm/a.cpp", "lockstep", folders));
  EXPECT_TRUE(may_open("src/base/a.hpp", "lockstep::split_mix", folders));
  EXPECT_TRUE(may_open("include/lockstep/torch.hpp", "lockstep::torch", folders));
  EXPECT_TRUE(may_open("include/lockstep/mpi.hpp", "lockstep", folders));
  EXPECT_FALSE(may_open("src/backends/a.cpp", "lockstep", folders));
  EXPECT_FALSE(may_open("src/comm/a.cpp", "lockstep::backends", folders));
  EXPECT_FALSE(may_open("apps/comm-bench/a.cpp", "lockstep::bench", folders));
  EXPECT_EQ(namespaces("namespace a::b {\nnamespace {\nnamespace d {\n}  // namespace d\n}  // namespace\n"
                       "namespace c {\n}  // namespace c\n}  // namespace a::b\nnamespace e {\n"),
            (std::vector<std::string>{"a::b", "a::b::d", "a::b::c", "e"}));
}

}  // namespace
}  // namespace lockstep::architecture
