// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/available_memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace lockstep {
namespace {

using std::filesystem::path;

/// The names that one version of control groups gives to what counts here.
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

/// The number of a file that has only one; nothing for "max".
std::optional<std::int64_t> number_in(const path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

/// The number after a word that starts a line. Without streams of words: the files are long, and read at every
/// allocation that ranks share.
std::optional<std::int64_t> number_after(const path& file, std::string_view word) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(word)) continue;
    const auto begin = line.find_first_not_of(" \t", word.size());
    if (begin == word.size() || begin == std::string::npos) continue;  // a longer word, or nothing
    std::int64_t number = 0;
    if (std::from_chars(line.data() + begin, line.data() + line.size(), number).ec == std::errc{}) return number;
  }
  return std::nullopt;
}

/// What one group's limit leaves. Pages of files are given up when memory is short, and count as free.
Bytes left_by(const path& group, const Controller& names) {
  const auto limit = number_in(group / names.limit);
  const auto usage = number_in(group / names.usage);
  if (!limit || !usage) return unknown_memory;
  const path statistics = group / "memory.stat";
  const auto files = number_after(statistics, names.inactive_file).value_or(0) +
                     number_after(statistics, names.active_file).value_or(0);
  return {std::max<std::int64_t>(*limit - *usage + files, 0)};
}

/// What a group's and its parents' limits leave. In a container the path may be the host's, of which only the end is to
/// be seen here, as the mount's root: groups that are not there leave unknown_memory.
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

Bytes installed_memory(const path& root) {
  const auto kilobytes = number_after(root / "proc/meminfo", "MemTotal:");
  return kilobytes ? Bytes{*kilobytes * 1024} : unknown_memory;
}

}  // namespace lockstep
