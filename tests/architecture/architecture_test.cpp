// SPDX-License-Identifier: Apache-2.0
// Reads the #include lines of the whole repository and compares them with the table in docs/architecture.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "architecture/house.hpp"
#include "architecture/literals.hpp"
#include "architecture/repository.hpp"

namespace lockstep::architecture {
namespace {

House documented_house() { return House::parse(text_of(repository() / "docs/architecture.md")); }

bool is_of_a_program(const SourceFile& file) {
  return file.path.starts_with("apps/") || file.path.starts_with("mpi-scripts/");
}

TEST(Architecture, EveryFileKeepsToTheTable) {
  House house = documented_house();
  const std::vector<SourceFile> files = source_files();
  house.find_public_headers(files);
  EXPECT_GT(files.size(), 20U);
  for (const SourceFile& file : files) {
    for (const std::string& violation : house.violations(file)) ADD_FAILURE() << violation;
  }
}

/// Every public header is a promise to users, so headers that users do not need must be private.
TEST(Architecture, HasAtMost56PublicHeaders) {
  const std::vector<SourceFile> files = source_files();
  const auto number = std::count_if(files.begin(), files.end(),
                                    [](const SourceFile& file) { return file.path.starts_with("include/"); });
  EXPECT_GT(number, 20);
  EXPECT_LE(number, 56);
}

TEST(Architecture, EveryArrowOfTheTableGoesDown) {
  EXPECT_EQ(documented_house().arrows_that_do_not_go_down(), std::vector<std::string>{});
}

TEST(Architecture, NoLibraryKnowsAProgramsFlags) {
  for (const SourceFile& file : source_files()) {
    // Pictures are a part of lockstep::train, which is a whole program.
    if (is_of_a_program(file) || file.path.starts_with("src/vision/")) continue;
    for (const std::string& literal : string_literals(file.text))
      for (const std::string& flag : flags_in(literal))
        ADD_FAILURE() << file.path << " names " << flag << ": programs say how their users give what libraries ask for";
  }
}

/// A model is only a graph of operators and its hyperparameters.
TEST(Architecture, AModelIsOneFileOfLessThanEightyLines) {
  int models = 0;
  for (const SourceFile& file : source_files()) {
    if (!file.path.starts_with("src/nn/models/") || !file.path.ends_with(".cpp")) continue;
    EXPECT_LT(std::count(file.text.begin(), file.text.end(), '\n'), 80) << file.path;
    ++models;
  }
  EXPECT_GT(models, 1);
}

/// The guides promise short programs: all that a loop needs beside gradients, and a libtorch module on MNIST.
TEST(Architecture, ShortExamplesHaveLessThanSixtyLines) {
  for (const char* path : {"examples/training_extras.cpp", "examples/torch/torch_mnist.cpp"}) {
    const std::string text = text_of(repository() / path);
    ASSERT_FALSE(text.empty()) << path;
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60) << path;
  }
}

TEST(Literals, AreFoundWithoutCommentsAndPutTogether) {
  EXPECT_EQ(string_literals("f(\"one\" // \"not\"\n  \" and\", 'x', \"two\\\"\") /* \"nor\" */ + 1'000 + \"\""),
            (std::vector<std::string>{"one and", "two\\\"", ""}));
  EXPECT_EQ(string_literals("// it's\nchar c = '\"'; g(\"three\");"), std::vector<std::string>{"three"});
}

TEST(Literals, NameFlagsUnlessTheyAreCommandsOfOtherPrograms) {
  EXPECT_EQ(flags_in("--lr 0.1: try a lower --weight-decay"), (std::vector<std::string>{"--lr", "--weight-decay"}));
  EXPECT_EQ(flags_in("start with `mpirun --bind-to none` (--explain)"), std::vector<std::string>{"--explain"});
  EXPECT_TRUE(flags_in("a -- b ---- c--").empty());
}

/// Returns the lines of a file that write to a standard stream, which belongs to the program. The attribute
/// gnu::format(printf, …) only names a kind of format.
std::vector<std::string> lines_that_print(const std::string& text) {
  static const std::regex printing(
      R"(\b(cout|cerr|clog|stdout|stderr|v?f?printf(?!, \d)|f?puts|f?putchar|perror|syslog)\b)");
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (std::regex_search(line.substr(0, line.find("//")), printing)) found.push_back(line);
  return found;
}

/// Exempt is the file that stands for a program's main.
TEST(Architecture, LibrariesPrintNothing) {
  for (const SourceFile& file : source_files()) {
    if (is_of_a_program(file) || file.path == "src/mpi/print.cpp") continue;
    EXPECT_EQ(lines_that_print(file.text), std::vector<std::string>{}) << file.path;
  }
}

TEST(ArchitectureRules, FindsALineThatPrints) {
  EXPECT_EQ(lines_that_print("int i;\n  std::fprintf(stream, \"x\");\nstd::cerr << 1;\n").size(), 2U);
  EXPECT_EQ(lines_that_print("  std::snprintf(text, 9, \"x\");  // as printf\nstd::ostream& out;\n").size(), 0U);
  EXPECT_EQ(lines_that_print("[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);\n").size(), 0U);
}

constexpr auto small_house = R"(
| Floor | Room | Holds | May include | Vendor headers |
|---|---|---|---|---|
| 0 | `base` | types | – | – |
| 1 | `platform` | MPI | base | mpi, cuda |
| 1 | `comm` | interface | base | – |
| 2 | `ops` | interface | base | – |
| 2 | `ops/fast` | one | ops, base, platform | dnnl |
| 2 | `ops/slow` | another | ops, base | – |
| 5 | `apps` | programs | floors 0–2 | – |
)";

std::size_t violations_of(std::string path, std::string text) {
  return House::parse(small_house).violations({std::move(path), std::move(text)}).size();
}

TEST(ArchitectureRules, FindsTheRoomOfAFile) {
  const House house = House::parse(small_house);
  EXPECT_EQ(house.room_of("include/lockstep/ops/fast.hpp"), "ops/fast");
  EXPECT_EQ(house.room_of("src/ops/fast/conv.cpp"), "ops/fast");
  EXPECT_EQ(house.room_of("include/lockstep/ops/faster.hpp"), "ops");
  EXPECT_EQ(house.room_of("apps/train/main.cpp"), "apps");
  EXPECT_EQ(house.room_of("src/attic/x.cpp"), std::nullopt);
}

TEST(ArchitectureRules, FindsTheInnerRoomOfAPublicHeaderByItsSource) {
  House house = House::parse(small_house);
  const std::vector<SourceFile> files{{"src/ops/slow/scalar.cpp", "#include \"lockstep/ops/scalar.hpp\"\n"},
                                      {"src/ops/fast/units.cpp", "#include \"ops/fast/units.hpp\"\n"}};
  house.find_public_headers(files);
  EXPECT_EQ(house.room_of("include/lockstep/ops/scalar.hpp"), "ops/slow");
  EXPECT_EQ(house.room_of("lockstep/ops/scalar.hpp"), "ops/slow");
  EXPECT_EQ(house.room_of("ops/scalar.hpp"), "ops");
  EXPECT_EQ(house.room_of("include/lockstep/ops/units.hpp"), "ops");
}

TEST(ArchitectureRules, AllowsWhatTheTableSays) {
  EXPECT_EQ(violations_of("src/comm/work.cpp", "#include \"lockstep/base/error.hpp\"\n#include <vector>\n"), 0U);
  EXPECT_EQ(violations_of("src/platform/world.cpp", "#include <mpi.h>\n#include \"platform/mpi.hpp\"\n"), 0U);
  EXPECT_EQ(violations_of("src/ops/fast/a.cpp", "#include \"lockstep/ops/ops.hpp\"\n#include \"platform/x.hpp\"\n"),
            0U);
  EXPECT_EQ(violations_of("apps/train/main.cpp", "#include \"lockstep/ops/fast.hpp\"\n#include \"flags.hpp\"\n"), 0U);
}

TEST(ArchitectureRules, FindsAnArrowThatIsNotInTheTable) {
  EXPECT_EQ(violations_of("src/base/error.cpp", "#include \"lockstep/comm/work.hpp\"\n"), 1U);
  EXPECT_EQ(violations_of("src/comm/work.cpp", "  #  include \"lockstep/platform/world.hpp\"\n"), 1U);
  EXPECT_EQ(violations_of("src/ops/fast/a.cpp", "#include \"lockstep/ops/slow.hpp\"\n"), 1U);
  EXPECT_EQ(violations_of("src/ops/slow/a.cpp", "#include \"platform/x.hpp\"\n"), 1U);
  EXPECT_EQ(violations_of("src/base/error.cpp", "#include \"lockstep/attic/x.hpp\"\n"), 1U);
  EXPECT_EQ(violations_of("src/attic/x.cpp", ""), 1U);
}

TEST(ArchitectureRules, FindsVendorHeadersOutsideTheirRooms) {
  for (const char* header :
       {"mpi.h", "nccl.h", "cuda_runtime_api.h", "cudnn.h", "dnnl.hpp", "oneapi/dnnl/dnnl.hpp", "hwloc.h",
        "hwloc/cudart.h", "turbojpeg.h", "spng.h", "pugixml.hpp", "yaml-cpp/yaml.h", "lmdb.h"}) {
    EXPECT_EQ(violations_of("src/comm/work.cpp", "#include <" + std::string(header) + ">\n"), 1U) << header;
  }
  EXPECT_EQ(violations_of("include/lockstep/platform/world.hpp", "#include <mpi.h>\n"), 1U);
  EXPECT_EQ(violations_of("src/platform/world.cpp", "#include <dnnl.hpp>\n"), 1U);
}

TEST(ArchitectureRules, FindsPrivateHeadersInPublicOnes) {
  EXPECT_EQ(violations_of("include/lockstep/platform/world.hpp", "#include \"platform/mpi.hpp\"\n"), 1U);
}

TEST(ArchitectureRules, FindsConditionalsOnCuda) {
  EXPECT_EQ(violations_of("src/comm/work.cpp", "#ifdef LOCKSTEP_CUDA\n#endif\n"), 1U);
  EXPECT_EQ(violations_of("apps/train/main.cpp", "#if defined(HAVE_NCCL)\n#endif\n"), 1U);
  EXPECT_EQ(violations_of("src/platform/gpu.cpp", "#if CUDART_VERSION > 12000 // CUDA\n#endif\n"), 0U);
  EXPECT_EQ(violations_of("include/lockstep/comm/work.hpp", "#if defined(__CUDACC__)\n#endif\n"), 0U);
}

TEST(ArchitectureRules, FindsAnArrowThatGoesUpOrSideways) {
  const std::string table = "| Floor | Room | Holds | May include | Vendor headers |\n|---|---|---|---|---|\n";
  const House house = House::parse(table + "| 0 | base | x | comm | – |\n| 1 | comm | x | platform | – |\n" +
                                   "| 1 | platform | x | base | – |\n");
  EXPECT_EQ(house.arrows_that_do_not_go_down(), (std::vector<std::string>{"base → comm", "comm → platform"}));
}

TEST(ArchitectureRules, FindsACircleInsideASuite) {
  const std::string table = "| Floor | Room | Holds | May include | Vendor headers |\n|---|---|---|---|---|\n";
  const std::string outer = "| 2 | ops | x | – | – |\n| 2 | ops/fast | x | ops | – |\n";
  EXPECT_TRUE(House::parse(table + outer).arrows_that_do_not_go_down().empty());
  const House circle = House::parse(table + "| 2 | ops | x | ops/fast | – |\n| 2 | ops/fast | x | ops | – |\n");
  EXPECT_EQ(circle.arrows_that_do_not_go_down(), (std::vector<std::string>{"ops → ops/fast", "ops/fast → ops"}));
}

TEST(ArchitectureRules, RefusesATableItCannotRead) {
  EXPECT_THROW(House::parse("no table here"), std::runtime_error);
  EXPECT_THROW(House::parse("| Floor | Room | Holds | May include | V |\n|---|\n| 0 | base | x | cellar | – |\n"),
               std::runtime_error);
}

}  // namespace
}  // namespace lockstep::architecture
