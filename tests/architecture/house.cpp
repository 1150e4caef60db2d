// SPDX-License-Identifier: Apache-2.0
#include "architecture/house.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace lockstep::architecture {
namespace {

bool starts_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

std::string trimmed(std::string text) {
  const char* blanks = " `*";
  text.erase(0, text.find_first_not_of(blanks));
  text.erase(text.find_last_not_of(blanks) + 1);
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

/// Returns "backends" for "backends/plan".
std::string outermost(const std::string& room) { return room.substr(0, room.find('/')); }

/// Returns the rows of the table of rooms as cells, without the line of dashes under the header.
std::vector<std::vector<std::string>> table_rows(std::string_view markdown) {
  std::istringstream in{std::string(markdown)};
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (starts_with(line, "| Floor | Room |")) {
      inside = true;
    } else if (inside && !starts_with(line, "|")) {
      return rows;
    } else if (inside && !starts_with(line, "|-")) {
      rows.push_back(split(line.substr(1), '|'));
    }
  }
  return rows;
}

std::set<std::string> named(const std::string& cell) {
  std::set<std::string> names;
  for (const std::string& name : split(cell, ',')) {
    if (!name.empty() && name != "–") names.insert(name);
  }
  return names;
}

bool lies_in(std::string_view path, const std::string& folder) {
  return path.substr(0, folder.size()) == folder &&
         (path.size() == folder.size() || path[folder.size()] == '/' || path[folder.size()] == '.');
}

/// Removes the part of a path in front of its room: src/ops/onednn/conv.cpp → ops/onednn/conv.cpp.
std::string_view within_house(std::string_view path) {
  for (const std::string_view root : {"include/lockstep/", "lockstep/", "src/"}) {
    if (path.substr(0, root.size()) == root) return path.substr(root.size());
  }
  return path;
}

/// Returns whether the header may include a vendor's headers, because programs that include it already use MPI or
/// libtorch.
bool is_for_a_vendors_programs(std::string_view path) {
  return path == "include/lockstep/mpi.hpp" || path == "include/lockstep/torch.hpp";
}

constexpr const char* cuda_words[] = {"CUDA", "NCCL", "GPU", "NVCC"};

/// A preprocessor line: # name argument.
struct Directive {
  int line;
  std::string name;
  std::string argument;
};

std::vector<Directive> directives(const std::string& text) {
  std::vector<Directive> found;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string start = trimmed(line);
    if (!starts_with(start, "#")) continue;
    const std::string rest = trimmed(start.substr(1));
    const std::size_t name_end = std::min(rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), rest.size());
    found.push_back({number, rest.substr(0, name_end), trimmed(rest.substr(name_end))});
  }
  return found;
}

/// Whether a condition depends on CUDA, other than on which compiler reads the file.
bool mentions_cuda(const std::string& condition) {
  if (condition == "defined(__CUDACC__)") return false;
  return std::any_of(std::begin(cuda_words), std::end(cuda_words),
                     [&](const char* word) { return condition.find(word) != std::string::npos; });
}

bool is_public(const SourceFile& file) { return starts_with(file.path, "include/"); }

}  // namespace

std::optional<std::string> vendor_of(std::string_view header) {
  // A header belongs to the vendor of the first beginning that matches.
  static constexpr std::pair<const char*, const char*> beginnings[] = {
      {"mpi.h", "mpi"},           {"mpi-ext.h", "mpi"},   {"nccl", "nccl"},
      {"cudnn", "cudnn"},         {"cuda", "cuda"},       {"cublas", "cuda"},
      {"nvrtc", "cuda"},          {"nvml", "cuda"},       {"dnnl", "dnnl"},
      {"oneapi/dnnl", "dnnl"},    {"hwloc.h", "hwloc"},   {"hwloc/", "hwloc"},
      {"driver_types.h", "cuda"}, {"torch/", "torch"},    {"turbojpeg.h", "turbojpeg"},
      {"spng.h", "spng"},         {"pugixml", "pugixml"}, {"yaml-cpp", "yaml-cpp"},
      {"lmdb.h", "lmdb"}};
  for (const auto& [beginning, vendor] : beginnings) {
    if (starts_with(header, beginning)) return vendor;
  }
  return std::nullopt;
}

House House::parse(std::string_view markdown) {
  House house;
  std::map<std::string, std::string> allowed;
  for (const std::vector<std::string>& cells : table_rows(markdown)) {
    if (cells.size() < 5) throw std::runtime_error("a row of the table of rooms has fewer than five cells");
    house.rooms_[cells[1]] = {std::stoi(cells[0]), {}, named(cells[4])};
    allowed[cells[1]] = cells[3];
  }
  if (house.rooms_.empty()) throw std::runtime_error("there is no table that starts with | Floor | Room |");
  static constexpr std::string_view up_to = "floors 0–";
  for (const auto& [name, cell] : allowed) {
    std::set<std::string>& may_include = house.rooms_[name].may_include;
    for (const std::string& other : named(cell)) {
      if (starts_with(other, up_to)) {
        const int highest = std::stoi(other.substr(up_to.size()));
        for (const auto& [lower, room] : house.rooms_)
          if (room.floor <= highest) may_include.insert(lower);
        continue;
      }
      if (!house.rooms_.contains(other))
        throw std::runtime_error(name + " may include " + other + ", which is no room");
      may_include.insert(other);
    }
  }
  return house;
}

void House::find_public_headers(std::span<const SourceFile> files) {
  for (const SourceFile& file : files) {
    const std::string room = room_of(file.path).value_or("");
    if (!file.path.ends_with(".cpp") || room.find('/') == std::string::npos) continue;
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    const std::string header = room.substr(0, room.rfind('/') + 1) + name.substr(0, name.rfind('.')) + ".hpp";
    const std::vector<Directive> lines = directives(file.text);
    const bool is_first = !lines.empty() && lines.front().argument == "\"lockstep/" + header + "\"";
    if (is_first) homes_.emplace(header, room);
  }
}

std::optional<std::string> House::room_of(std::string_view path) const {
  const std::string_view inside = within_house(path);
  const bool is_public_header = starts_with(path, "include/") || starts_with(path, "lockstep/");
  if (const auto home = homes_.find(std::string(inside)); is_public_header && home != homes_.end()) return home->second;
  std::string best;
  for (const auto& [name, room] : rooms_) {
    if (lies_in(inside, name) && name.size() > best.size()) best = name;
  }
  return best.empty() ? std::nullopt : std::optional(best);
}

std::optional<std::string> House::complaint_about_include(const SourceFile& file, const std::string& room,
                                                          const std::string& argument) const {
  const bool quoted = starts_with(argument, "\"");
  const std::string header = argument.substr(1, argument.find_first_of("\">", 1) - 1);
  const Room& rules = rooms_.at(room);
  if (const auto vendor = vendor_of(header)) {
    if (is_public(file) && !is_for_a_vendors_programs(file.path)) return "a public header includes " + header;
    if (!rules.vendor_headers.contains(*vendor)) return room + " may not include " + header;
    return std::nullopt;
  }
  const bool header_is_public = starts_with(header, "lockstep/");
  if (is_public(file) && quoted && !header_is_public) return "a public header includes the private " + header;
  if (header.find('/') == std::string::npos) return std::nullopt;  // a standard header, or in the file's own folder
  const auto target = room_of(header);
  if (!target) return header_is_public ? std::optional(header + " belongs to no room") : std::nullopt;
  if (*target != room && !rules.may_include.contains(*target)) return room + " may not include " + *target;
  return std::nullopt;
}

std::vector<std::string> House::violations(const SourceFile& file) const {
  const auto room = room_of(file.path);
  if (!room) return {file.path + ": belongs to no room of the table"};
  const bool conditionals_allowed = !is_public(file) && rooms_.at(*room).vendor_headers.contains("cuda");
  std::vector<std::string> found;
  for (const Directive& directive : directives(file.text)) {
    const std::string place = file.path + ":" + std::to_string(directive.line) + ": ";
    if (directive.name == "include") {
      const auto complaint = complaint_about_include(file, *room, directive.argument);
      if (complaint) found.push_back(place + *complaint);
    } else if (starts_with(directive.name, "if") || starts_with(directive.name, "elif")) {
      if (mentions_cuda(directive.argument) && !conditionals_allowed) {
        found.push_back(place + "CMake chooses between files; callers carry no conditionals on CUDA");
      }
    }
  }
  return found;
}

std::vector<std::string> House::arrows_that_do_not_go_down() const {
  std::vector<std::string> found;
  for (const auto& [name, room] : rooms_) {
    for (const std::string& other : room.may_include) {
      const Room& target = rooms_.at(other);
      const bool same_suite = target.floor == room.floor && outermost(name) == outermost(other);
      const bool goes_down = target.floor < room.floor || (same_suite && !reaches(other, name));
      if (!goes_down) found.push_back(name + " → " + other);
    }
  }
  return found;
}

bool House::reaches(const std::string& from, const std::string& to) const {
  std::set<std::string> seen;
  std::vector<std::string> open{from};
  while (!open.empty()) {
    const std::string room = open.back();
    open.pop_back();
    if (room == to) return true;
    if (!seen.insert(room).second) continue;
    const auto& next = rooms_.at(room).may_include;
    open.insert(open.end(), next.begin(), next.end());
  }
  return false;
}

}  // namespace lockstep::architecture
