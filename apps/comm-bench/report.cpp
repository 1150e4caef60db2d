// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/report.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "lockstep/mpi/world.hpp"

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

double algorithm_bandwidth_gbps(const Measurement& m) {
  return m.median_seconds > 0 ? static_cast<double>(m.bytes.value) / m.median_seconds / 1e9 : 0;
}

double bus_bandwidth_gbps(const Subject& subject, const Measurement& m) {
  return algorithm_bandwidth_gbps(m) * bus_factor(subject.op, subject.ranks);
}

/// Formats in six columns, with four decimals if they fit.
std::string bandwidth_text(double gbps) { return format_text(gbps < 9.9999 ? "%6.4f" : "%6.2f", gbps); }

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
  return format_text(number < 999.5 ? "%.3g %s" : "%.0f %s", number, units[unit]);
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

double bus_factor(CollectiveKind kind, int ranks) {
  if (kind == CollectiveKind::barrier || is_message(kind)) return 0;
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce) return 1;
  const double others = static_cast<double>(ranks - 1) / ranks;
  return kind == CollectiveKind::all_reduce ? 2 * others : others;
}

std::string table_head(const Subject& subject, const std::string& program, int nodes) {
  const auto count_of = [](int number, const char* thing) {
    return std::to_string(number) + ' ' + thing + (number == 1 ? "" : "s");
  };
  return "# " + program + "\n# " + std::string(name(subject.op)) + ", " + std::string(name(subject.dtype)) + ", " +
         count_of(subject.ranks, "rank") + " on " + count_of(nodes, "node") +
         (subject.device == "cpu" ? "" : ", memory of " + std::string(subject.device)) + '\n' +
         format_text("#%9s %-31s %9s %9s %6s %6s\n", "size", "algorithm", "median", "minimum", "algbw", "busbw") +
         format_text("#%9s %-31s %9s %9s %6s %6s\n", "(B)", "", "(us)", "(us)", "(GB/s)", "(GB/s)");
}

std::string table_line(const Subject& subject, const Measurement& m) {
  const std::string result = m.wrong == 0 ? "ok" : std::to_string(m.wrong) + " wrong";
  return format_text("%10lld %-31s %9.2f %9.2f %s %s  %s\n", static_cast<long long>(m.bytes.value), m.algorithm.c_str(),
                     m.median_seconds * 1e6, m.min_seconds * 1e6, bandwidth_text(algorithm_bandwidth_gbps(m)).c_str(),
                     bandwidth_text(bus_bandwidth_gbps(subject, m)).c_str(), result.c_str());
}

std::optional<AutoComparison> compare_auto(std::span<const Measurement> measurements) {
  struct Size {
    const Measurement* automatic = nullptr;
    const Measurement* best = nullptr;
  };
  std::map<std::int64_t, Size> sizes;
  for (const Measurement& m : measurements) {
    if (is_mpi_contender(m.algorithm)) continue;
    Size& size = sizes[m.bytes.value];
    const Measurement*& slot = m.algorithm == automatic ? size.automatic : size.best;
    if (slot == nullptr || m.median_seconds < slot->median_seconds) slot = &m;
  }
  std::optional<AutoComparison> worst;
  for (const auto& [bytes, size] : sizes) {
    if (size.automatic == nullptr || size.best == nullptr || size.best->median_seconds <= 0) continue;
    const double ratio = size.automatic->median_seconds / size.best->median_seconds;
    if (!worst || ratio > worst->worst_ratio) worst = {ratio, {bytes}, size.best->algorithm};
  }
  return worst;
}

std::string summary_line(const AutoComparison& c) {
  const bool slower = c.worst_ratio >= 1;
  return "# auto vs best single algorithm: " +
         format_text("%.2f× %s at worst (", slower ? c.worst_ratio : 1 / c.worst_ratio, slower ? "slower" : "faster") +
         size_text(c.bytes) + ")\n";
}

std::optional<std::string> complaint(std::span<const Measurement> measurements) {
  const auto wrong = std::ranges::count_if(measurements, [](const Measurement& m) { return m.wrong > 0; });
  if (wrong == 0) return {};
  return "# " + std::to_string(wrong) + " of " + std::to_string(measurements.size()) + " lines have wrong results\n";
}

std::string to_json(const Subject& subject, std::span<const Measurement> measurements) {
  auto results = nlohmann::ordered_json::array();
  for (const Measurement& m : measurements) {
    results.push_back({{"op", name(subject.op)},
                       {"algorithm", m.algorithm},
                       {"device", subject.device},
                       {"bytes", m.bytes.value},
                       {"ranks", subject.ranks},
                       {"dtype", name(subject.dtype)},
                       {"median_us", m.median_seconds * 1e6},
                       {"min_us", m.min_seconds * 1e6},
                       {"algbw_gbps", algorithm_bandwidth_gbps(m)},
                       {"busbw_gbps", bus_bandwidth_gbps(subject, m)},
                       {"correct", m.wrong == 0}});
  }
  nlohmann::ordered_json whole = {{"results", results}};
  if (const auto c = compare_auto(measurements)) {
    whole["auto"] = {{"worst_ratio", c->worst_ratio}, {"bytes", c->bytes.value}, {"best", c->best}};
  }
  return whole.dump(2) + '\n';
}

}  // namespace lockstep::comm_bench
