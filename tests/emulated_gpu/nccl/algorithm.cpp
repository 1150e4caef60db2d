// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/algorithm.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace emulated_gpu {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

/// Removes the part before the first `separator` and returns it.
std::string_view cut(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

Algorithms read_list(std::string_view list) {
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  Algorithms named{false, false};
  while (!list.empty()) {
    const std::string_view name = cut(list, ',');
    named.ring = named.ring || name == "ring";
    named.tree = named.tree || name == "tree";
  }
  return excludes ? Algorithms{!named.ring, !named.tree} : named;
}

}  // namespace

Algorithms allowed_algorithms(std::string_view value, std::string_view function) {
  const std::string lower = in_lower_case(value);
  std::string_view rest = lower;
  Algorithms allowed;
  while (!rest.empty()) {
    std::string_view list = cut(rest, ';');
    const bool is_for_one = list.find(':') != std::string_view::npos;
    const std::string_view whose = is_for_one ? cut(list, ':') : function;
    if (whose == function) allowed = read_list(list);
  }
  return allowed;
}

}  // namespace emulated_gpu
