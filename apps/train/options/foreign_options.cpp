// SPDX-License-Identifier: Apache-2.0
#include "apps/train/options/foreign_options.hpp"

#include <algorithm>
#include <vector>

namespace lockstep::train {
namespace {

constexpr std::string_view table =
#include "foreign_options.txt"
    ;

/// Returns what stands before the separator, and removes both from `rest`.
std::string_view take_until(char separator, std::string_view& rest) {
  const std::string_view first = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(first.size() + 1, rest.size()));
  return first;
}

std::vector<cli::ForeignOption> read_table() {
  std::vector<cli::ForeignOption> all;
  cli::ForeignOption row = {};
  for (std::string_view rest = table; !rest.empty();) {
    std::string_view line = take_until('\n', rest);
    if (line.starts_with('#')) continue;
    if (line.starts_with("! ") || line.starts_with("~ ")) {
      row = {.spelling = {}, .alias = {}, .answer = line.substr(2), .is_needless = line[0] == '~'};
      continue;
    }
    std::string_view spellings = take_until(';', line);
    if (!spellings.starts_with(' ')) {
      row = {.spelling = {},
             .alias = take_until(' ', spellings),
             .answer = line.substr(std::min<std::size_t>(1, line.size()))};
    }
    while (!spellings.empty()) {
      row.spelling = take_until(' ', spellings);
      if (!row.spelling.empty() && row.spelling[0] != '@' && row.spelling != "=") all.push_back(row);
    }
  }
  return all;
}

}  // namespace

std::span<const cli::ForeignOption> foreign_options() {
  static const std::vector<cli::ForeignOption> all = read_table();
  return all;
}

}  // namespace lockstep::train
