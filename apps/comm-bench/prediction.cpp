// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>

#include "apps/comm-bench/options.hpp"
#include "apps/common/run_app.hpp"
#include "base/nearest.hpp"

namespace lockstep::comm_bench {
namespace {

std::string text_of(const OptionValues& flags, const char* option) { return flags.get<std::string>(option); }

void refuse_alone(const OptionValues& flags) {
  for (const char* option : {"nodes", "ranks-per-node", "latency", "overhead", "bandwidth", "bytes", "compute-seconds"})
    if (flags.has(option)) throw UsageError("--" + std::string(option) + " belongs to --predict");
}

int positive(const OptionValues& flags, const char* option) {
  if (!flags.has(option)) throw UsageError("--predict needs --" + std::string(option));
  return flags.get<int>(option);
}

/// @pre `parse` takes the text and names it in its error
template <typename Parse>
double needed(const OptionValues& flags, const char* option, const Parse& parse) {
  if (!flags.has(option)) throw UsageError("--predict needs --" + std::string(option));
  return parse(text_of(flags, option));
}

collectives::ShapeSummary cluster_of(const OptionValues& flags) {
  const int nodes = positive(flags, "nodes");
  const int together = positive(flags, "ranks-per-node");
  if (nodes > std::numeric_limits<int>::max() / together / 2) {
    throw UsageError("--nodes " + std::to_string(nodes) + ": times --ranks-per-node is beyond 2^30 ranks");
  }
  return {.nodes = nodes, .ranks = nodes * together, .min_ranks_per_node = together, .max_ranks_per_node = together};
}

/// Without the option, the overhead is the same fraction of the latency as in default_prices.
double overhead_of(const OptionValues& flags, double latency) {
  if (!flags.has("overhead")) return latency / 10;
  const double overhead = parse_duration(text_of(flags, "overhead"));
  if (overhead > latency) throw UsageError("--overhead " + text_of(flags, "overhead") + ": it is a part of --latency");
  return overhead;
}

collectives::Prices prices_of(const OptionValues& flags) {
  const double latency = needed(flags, "latency", parse_duration);
  const collectives::LinkCost remote{.alpha_seconds = latency,
                                     .beta_seconds_per_byte = 1 / needed(flags, "bandwidth", parse_bandwidth),
                                     .wire_seconds = latency - overhead_of(flags, latency)};
  const collectives::LinkCost local{.alpha_seconds = parse_duration(text_of(flags, "local-latency")),
                                    .beta_seconds_per_byte = 1 / parse_bandwidth(text_of(flags, "local-bandwidth"))};
  const double gamma = 1 / parse_bandwidth(text_of(flags, "add-bandwidth"));
  return {.messages = {local, remote, gamma},
          .shared_memory = {local.alpha_seconds, local.beta_seconds_per_byte, gamma}};
}

std::vector<Bytes> sizes_of(const OptionValues& flags, const SizeRange& range, std::int64_t element_bytes) {
  if (flags.has("bytes")) return {parse_size(text_of(flags, "bytes"))};
  std::vector<Bytes> sizes;
  for (const Count count : part_counts(range, element_bytes, 1)) sizes.push_back({count.value * element_bytes});
  return sizes;
}

struct Quantity {
  double number;
  std::string_view unit;
};

/// Splits a positive decimal number from the text after it; returns nothing if there is no such number.
std::optional<Quantity> split(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return std::nullopt;
  return Quantity{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<double> seconds_of(std::string_view unit) {
  if (unit == "ns") return 1e-9;
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit == "s") return 1;
  return std::nullopt;
}

/// Removes a prefix K, M, G or T and returns its factor.
double take_prefix(std::string_view& unit) {
  constexpr std::string_view prefixes = "KMGT";
  const auto found = unit.empty() ? std::string_view::npos : prefixes.find(unit.front());
  if (found == std::string_view::npos) return 1;
  unit.remove_prefix(1);
  return std::pow(1000, static_cast<double>(found + 1));
}

std::optional<double> bytes_of(std::string_view unit) {
  const double factor = take_prefix(unit);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  if (unit == "bit") return factor / 8;
  if (unit == "B") return factor;
  return std::nullopt;
}

using collectives::PricedChoice;

constexpr CollectiveKind predicted_kind = CollectiveKind::all_reduce;

[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
  std::array<char, 200> text{};
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text.data(), text.size(), format, values);
  va_end(values);
  return text.data();
}

std::string efficiency_column(const PredictionQuestion& q, double seconds) {
  if (!q.compute_seconds) return "\n";
  return print("  %8.2f %%\n", 100 * scaling_efficiency(*q.compute_seconds, q.overlap, seconds));
}

std::string head(const PredictionQuestion& q) {
  const collectives::CostModel& m = q.selection.prices.messages;
  const collectives::ShapeSummary& shape = q.selection.shape;
  std::string text = print("# all_reduce on %d nodes of %d ranks, by the model that auto chooses by\n", shape.nodes,
                           shape.max_ranks_per_node);
  text += print("# between nodes: %g us, of which %g us keep a rank busy, and %g GB/s a node\n",
                m.remote.alpha_seconds * 1e6, (m.remote.alpha_seconds - m.remote.wire_seconds) * 1e6,
                1e-9 / m.remote.beta_seconds_per_byte);
  text += print("# within a node: %g us and %g GB/s a rank; adding: %g GB/s\n", m.local.alpha_seconds * 1e6,
                1e-9 / m.local.beta_seconds_per_byte, 1e-9 / m.gamma_seconds_per_byte);
  text += print("# segments of %lld bytes, %d blocks in flight\n",
                static_cast<long long>(q.selection.untuned.segment.value), q.selection.untuned.blocks_in_flight);
  if (q.compute_seconds) {
    text += "# efficiency: compute / (compute + exposed communication)\n";
    text += print("# compute: %g s, of which %g %% can hide communication\n", *q.compute_seconds, 100 * q.overlap);
  }
  return text;
}

std::string line(const PredictionQuestion& q, Bytes size, const PricedChoice& p, const char* mark) {
  return print("%12lld  %-31s %5s %14.2f%s", static_cast<long long>(size.value),
               std::string(name(p.choice.algorithm)).c_str(), radix_text(predicted_kind, p.choice).c_str(),
               p.predicted_seconds * 1e6, mark) +
         efficiency_column(q, p.predicted_seconds);
}

}  // namespace

OptionGroup prediction_options() {
  const Whole count{1, std::numeric_limits<int>::max()};
  return {
      "Prediction, for a cluster that need not exist",
      {{.name = "predict",
        .domain = Switch{},
        .help = "print the time of an all_reduce by the cost model of auto; measure nothing",
        .otherwise = "no"},
       {.name = "nodes", .domain = count, .help = "number of nodes"},
       {.name = "ranks-per-node", .domain = count, .help = "ranks on each node"},
       {.name = "latency",
        .domain = Text{"TIME"},
        .help = "latency of a message between nodes, as 2us; ns, us, ms or s"},
       {.name = "overhead",
        .domain = Text{"TIME"},
        .help = "the part of --latency that keeps a rank busy",
        .default_text = "a tenth of it"},
       {.name = "bandwidth",
        .domain = Text{"RATE"},
        .help = "bandwidth of a node's link each way, which its ranks share, as 400Gbit or 50GB"},
       {.name = "local-latency",
        .domain = Text{"TIME"},
        .help = "latency of a message, or of a look at a peer's memory, inside a node",
        .otherwise = "500ns"},
       {.name = "local-bandwidth",
        .domain = Text{"RATE"},
        .help = "bandwidth of each rank inside a node",
        .otherwise = "10GB"},
       {.name = "add-bandwidth",
        .domain = Text{"RATE"},
        .help = "bytes that a rank adds per second",
        .otherwise = "10GB"},
       {.name = "bytes",
        .domain = Text{"SIZE"},
        .help = "size of the buffer; without it, the choice at each size from --min to --max"},
       {.name = "compute-seconds",
        .domain = Real{.min = 0, .max = 1e9, .above_min = true},
        .help = "compute time of one step; gives the scaling efficiency, compute / (compute + exposed communication)"},
       {.name = "overlap",
        .domain = Real{0, 1},
        .help = "the part of the compute time behind which communication can hide; what is left is exposed",
        .otherwise = "0"}}};
}

std::optional<PredictionQuestion> parse_prediction(const OptionValues& flags, const collectives::Choice& untuned,
                                                   const SizeRange& range, std::int64_t element_bytes) {
  if (!flags.get<bool>("predict")) {
    refuse_alone(flags);
    return std::nullopt;
  }
  PredictionQuestion question;
  question.selection = {.shape = cluster_of(flags), .untuned = untuned, .prices = prices_of(flags)};
  question.sizes = sizes_of(flags, range, element_bytes);
  question.overlap = flags.get<double>("overlap");
  if (flags.has("compute-seconds")) question.compute_seconds = flags.get<double>("compute-seconds");
  return question;
}

double parse_duration(std::string_view text) {
  const auto quantity = split(text);
  const auto unit = quantity ? seconds_of(quantity->unit) : std::nullopt;
  if (unit) return quantity->number * *unit;
  throw UsageError("'" + echo(text) + "' is not a duration; write a positive number with ns, us, ms or s, like 2us");
}

double parse_bandwidth(std::string_view text) {
  const auto quantity = split(text);
  const auto unit = quantity ? bytes_of(quantity->unit) : std::nullopt;
  if (unit) return quantity->number * *unit;
  throw UsageError("'" + echo(text) +
                   "' is not a bandwidth; write a positive number of bits or bytes per second, with K, M, G or T for "
                   "powers of 1000, like 400Gbit or 50GB");
}

double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds) {
  const double exposed = std::max(0.0, communication_seconds - overlap * compute_seconds);
  return compute_seconds / (compute_seconds + exposed);
}

std::string prediction_text(const PredictionQuestion& q) {
  std::string text = head(q) + print("#%11s  %-31s %5s %14s", "bytes", "algorithm", "radix", "time (us)");
  text += q.compute_seconds ? "  efficiency\n" : "\n";
  for (const Bytes size : q.sizes) {
    const std::vector<PricedChoice> all = priced_candidates(q.selection, predicted_kind, size);
    const std::size_t shown = q.sizes.size() == 1 ? all.size() : 1;
    for (std::size_t i = 0; i < shown; ++i) text += line(q, size, all[i], shown > 1 && i == 0 ? " *" : "");
  }
  if (q.sizes.size() == 1) text += "# * the choice: the least\n";
  return text;
}

}  // namespace lockstep::comm_bench
