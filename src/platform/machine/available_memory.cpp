// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/available_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

namespace lockstep {
namespace {

using std::filesystem::path;

/// The file names and keys that one version of control groups uses for memory.
struct Controller {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* inactive_file;
  const char* active_file;
};
constexpr Controller version_1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file", "total_active_file"};
constexpr Controller version_2 = {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"};

/// Reads a file that contains one number; returns nothing for "max".
std::optional<std::int64_t> number_in(const path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

/// Returns the number after a word that starts a line. It does not read words from a stream, because the files are long
/// and are read at every allocation of shared memory.
std::optional<std::int64_t> number_after(const path& file, std::string_view word) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(word)) continue;
    const auto begin = line.find_first_not_of(" \t", word.size());
    if (begin == word.size() || begin == std::string::npos) continue;  // a longer word, or no number
    std::int64_t number = 0;
    if (std::from_chars(line.data() + begin, line.data() + line.size(), number).ec == std::errc{}) return number;
  }
  return std::nullopt;
}

/// Returns the memory that the limit of one group leaves. Page cache is reclaimed when memory is short, so it counts as
/// free.
Bytes left_by(const path& group, const Controller& names) {
  const auto limit = number_in(group / names.limit);
  const auto usage = number_in(group / names.usage);
  if (!limit || !usage) return unknown_memory;
  const path statistics = group / "memory.stat";
  const auto files = number_after(statistics, names.inactive_file).value_or(0) +
                     number_after(statistics, names.active_file).value_or(0);
  return {std::max<std::int64_t>(*limit - *usage + files, 0)};
}

/// Returns the memory that the limits of a group and its parents leave. In a container, the path may be the host's, of
/// which only the end exists here, below the root of the mount. Groups that do not exist here leave unknown_memory.
Bytes left_by_all(const path& root, const path& group, const Controller& names) {
  Bytes least = left_by(root / names.mount, names);
  for (path at = group.relative_path(); !at.empty(); at = at.parent_path()) {
    least = std::min(least, left_by(root / names.mount / at, names));
  }
  return least;
}

}  // namespace

Bytes available_memory(const path& root) {
  Bytes least = unknown_memory;
  if (const auto kilobytes = number_after(root / "proc/meminfo", "MemAvailable:")) least = {*kilobytes * 1024};
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/job" or "0::/job"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const path group = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, left_by_all(root, group, version_2));
    if (controllers == "memory") least = std::min(least, left_by_all(root, group, version_1));
  }
  return least;
}

Bytes resident_memory(const path& root) {
  std::int64_t all_pages = 0;
  std::int64_t resident_pages = 0;
  std::ifstream(root / "proc/self/statm") >> all_pages >> resident_pages;
  return {resident_pages * sysconf(_SC_PAGESIZE)};
}

Bytes installed_memory(const path& root) {
  const auto kilobytes = number_after(root / "proc/meminfo", "MemTotal:");
  return kilobytes ? Bytes{*kilobytes * 1024} : unknown_memory;
}

}  // namespace lockstep
