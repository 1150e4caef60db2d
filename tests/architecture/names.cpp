// SPDX-License-Identifier: Apache-2.0
#include "architecture/names.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <regex>
#include <sstream>

namespace lockstep::architecture {
namespace {

constexpr std::array<std::string_view, 5> facade = {"base", "comm", "ddp", "mpi", "platform"};

/// A type whose body is open at the current line.
struct OpenType {
  std::size_t indentation;
  bool is_private;
};

bool is_facade(std::string_view path, const std::string& folder) {
  return folder == path.substr(path.rfind('/') + 1, path.rfind('.') - path.rfind('/') - 1) ||
         std::find(facade.begin(), facade.end(), folder) != facade.end();
}

}  // namespace

std::vector<TypeDefinition> type_definitions(std::string_view source) {
  static const std::regex definition(R"(^( *)(class|struct|enum class|enum) (\w+)( final)?( : [^;]*)?( ?\{.*| :.*)?$)");
  static const std::regex section(R"(^( *)(public|private|protected):$)");
  std::vector<TypeDefinition> found;
  std::vector<OpenType> open;
  std::istringstream lines{std::string(source)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.find("//"), line.size()));
    line.resize(line.find_last_not_of(' ') + 1);
    const std::size_t indentation = line.find_first_not_of(' ');
    if (indentation == std::string::npos || line[indentation] == '#') continue;
    std::smatch match;
    if (std::regex_match(line, match, section)) {
      if (!open.empty()) open.back().is_private = match[2] != "public";
      continue;
    }
    while (!open.empty() && indentation <= open.back().indentation) open.pop_back();
    const bool defines =
        line.back() == '{' || line.find("};") != std::string::npos || line.find(" : ") != std::string::npos;
    if (!std::regex_match(line, match, definition) || !defines) continue;
    found.push_back({match[3], number, !open.empty(), !open.empty() && open.back().is_private});
    if (line.find("};") == std::string::npos) open.push_back({indentation, match[2] == "class"});
  }
  return found;
}

std::vector<std::string> namespaces(std::string_view source) {
  static const std::regex opening(R"(^namespace (?:([\w:]+) )?\{.*$)");
  static const std::regex closing(R"(^\}.*// namespace.*$)");
  std::vector<std::string> found;
  std::vector<std::string> open;  // the namespaces around the line, by their full names
  std::istringstream lines{std::string(source)};
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, closing) && !open.empty()) open.pop_back();
    if (!std::regex_match(line, match, opening)) continue;
    const std::string outer = open.empty() || open.back().empty() ? "" : open.back() + "::";
    open.push_back(match[1].matched ? outer + match[1].str() : outer.substr(0, outer.rfind("::")));
    if (match[1].matched) found.push_back(open.back());
  }
  return found;
}

std::string top_folder(std::string_view path) {
  for (const std::string_view root : {"include/lockstep/", "src/", "apps/"})
    if (path.starts_with(root)) path.remove_prefix(root.size());
  std::string folder(path.substr(0, path.find_first_of("/.")));
  std::replace(folder.begin(), folder.end(), '-', '_');
  return folder;
}

bool may_open(std::string_view path, std::string_view name, const std::vector<std::string>& folders) {
  const std::string folder = top_folder(path);
  const std::string own = "lockstep::" + folder;
  if (name == own || name.starts_with(own + "::")) return true;
  if (!is_facade(path, folder) || !name.starts_with("lockstep")) return false;
  if (name == "lockstep") return true;
  const std::string_view inner = name.substr(std::string_view("lockstep::").size());
  return std::find(folders.begin(), folders.end(), inner.substr(0, inner.find("::"))) == folders.end();
}

}  // namespace lockstep::architecture
