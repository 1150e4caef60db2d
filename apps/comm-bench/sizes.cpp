// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/sizes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <string>

#include "apps/common/run_app.hpp"
#include "base/nearest.hpp"

namespace lockstep::comm_bench {
namespace {

/// Returns the suffix's power of two; −1 for an unknown suffix.
int shift_of(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix == "K" || suffix == "k") return 10;
  if (suffix == "M" || suffix == "m") return 20;
  if (suffix == "G" || suffix == "g") return 30;
  return -1;
}

}  // namespace

Bytes parse_size(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const int shift = shift_of(text.substr(static_cast<std::size_t>(end - text.data())));
  const bool fits = shift >= 0 && number <= std::numeric_limits<std::int64_t>::max() >> shift;
  if (error != std::errc() || number < 1 || !fits) {
    throw UsageError("'" + echo(text) + "' is not a size in bytes; write a positive number, like 4, 64K or 1G");
  }
  return {number << shift};
}

std::string size_text(Bytes size) {
  constexpr std::array<const char*, 4> units = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  auto number = static_cast<double>(size.value);
  for (; number >= 1023.5 && unit + 1 < units.size(); ++unit) number /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), number < 999.5 ? "%.3g %s" : "%.0f %s", number, units[unit]);
  return text.data();
}

std::vector<Count> part_counts(const SizeRange& range, std::int64_t element_bytes, int parts) {
  std::vector<Count> counts;
  for (std::int64_t bytes = range.min.value; bytes <= range.max.value; bytes *= range.factor) {
    const Count count{std::max<std::int64_t>(1, bytes / (element_bytes * parts))};
    if (counts.empty() || counts.back() != count) counts.push_back(count);
    if (bytes > range.max.value / range.factor) break;  // the next size would be larger than the maximum, or overflow
  }
  return counts;
}

}  // namespace lockstep::comm_bench
