// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "apps/comm-bench/options.hpp"
#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "platform/machine/placement.hpp"

namespace lockstep::comm_bench {
namespace {

using namespace cli;

void require_given(const OptionValues& flags, std::initializer_list<const char*> options) {
  for (const char* option : options)
    if (!flags.has(option)) throw UsageError("--predict needs --" + std::string(option));
}

void reject_without_predict(const OptionValues& flags) {
  for (const char* option : {"nodes", "ranks-per-node", "latency", "overhead", "bandwidth", "bytes", "compute-seconds"})
    if (flags.has(option)) throw UsageError("--" + std::string(option) + " belongs to --predict");
}

collectives::ShapeSummary shape_of(const ClusterOptions& c) {
  if (c.nodes > std::numeric_limits<int>::max() / c.ranks_per_node / 2) {
    throw UsageError("--nodes " + std::to_string(c.nodes) + ": times --ranks-per-node is beyond 2^30 ranks");
  }
  return {c.nodes, c.nodes * c.ranks_per_node, c.ranks_per_node, c.ranks_per_node};
}

collectives::Prices prices_of(const ClusterOptions& c, const std::string& overhead) {
  if (c.overhead_seconds > c.latency_seconds)
    throw UsageError("--overhead " + overhead + ": it is a part of --latency");
  const double busy = c.overhead_seconds > 0 ? c.overhead_seconds : c.latency_seconds / 10;
  const collectives::LinkCost remote{c.latency_seconds, 1 / c.bandwidth, c.latency_seconds - busy};
  const collectives::LinkCost local{c.local_latency_seconds, 1 / c.local_bandwidth};
  const double gamma = 1 / c.add_bandwidth;
  return {.messages = {local, remote, gamma},
          .shared_memory = {local.alpha_seconds, local.beta_seconds_per_byte, gamma, 0,
                            collectives::default_prices().shared_memory.peer_seconds}};
}

/// Parses a positive decimal number and the unit behind it. @return nothing if the text is no such number
std::optional<double> quantity(std::string_view text, std::optional<double> (*factor_of)(std::string_view unit)) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return std::nullopt;
  const auto factor = factor_of(text.substr(static_cast<std::size_t>(end - text.data())));
  return factor ? std::optional(number * *factor) : std::nullopt;
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

std::string efficiency_column(const PredictionQuestion& q, double seconds) {
  if (!q.compute_seconds) return "\n";
  return format_text("  %8.2f %%\n", 100 * scaling_efficiency(*q.compute_seconds, q.overlap, seconds));
}

std::string head(const PredictionQuestion& q) {
  const collectives::CostModel& m = q.selection.prices.messages;
  const collectives::ShapeSummary& shape = q.selection.shape;
  std::string text = format_text("# all_reduce on %d nodes of %d ranks, by the model that auto chooses by\n",
                                 shape.nodes, shape.max_ranks_per_node);
  text += format_text("# between nodes: %g us, of which %g us keep a rank busy, and %g GB/s a node\n",
                      m.remote.alpha_seconds * 1e6, (m.remote.alpha_seconds - m.remote.wire_seconds) * 1e6,
                      1e-9 / m.remote.beta_seconds_per_byte);
  text += format_text("# within a node: %g us and %g GB/s a rank; adding: %g GB/s\n", m.local.alpha_seconds * 1e6,
                      1e-9 / m.local.beta_seconds_per_byte, 1e-9 / m.gamma_seconds_per_byte);
  text += format_text("# segments of %lld bytes, %d blocks in flight\n",
                      static_cast<long long>(q.selection.untuned.segment.value), q.selection.untuned.blocks_in_flight);
  if (q.compute_seconds) {
    text += "# efficiency: compute / (compute + exposed communication)\n";
    text +=
        format_text("# compute: %g s, of which %g %% can hide communication\n", *q.compute_seconds, 100 * q.overlap);
  }
  return text;
}

std::string line(const PredictionQuestion& q, Bytes size, const PricedChoice& p, const char* mark) {
  return format_text("%12lld  %-31s %5s %14.2f%s", static_cast<long long>(size.value),
                     std::string(name(p.choice.algorithm)).c_str(), radix_text(predicted_kind, p.choice).c_str(),
                     p.predicted_seconds * 1e6, mark) +
         efficiency_column(q, p.predicted_seconds);
}

}  // namespace

OptionGroup prediction_options(Options& options) {
  ClusterOptions& c = options.cluster;
  const Whole count{1, std::numeric_limits<int>::max()};
  const Text time{"TIME"};
  const Text rate{"RATE"};
  return {
      "Prediction, for a cluster that need not exist",
      {row("predict", Switch{}, "no", "print the time of an all_reduce by the cost model of auto; measure nothing",
           into(c.predict)),
       row("nodes", count, no_default, "number of nodes", into(c.nodes)),
       row("ranks-per-node", count, no_default, "ranks on each node", into(c.ranks_per_node)),
       row("latency", time, no_default, "latency of a message between nodes, as 2us; ns, us, ms or s",
           into(c.latency_seconds, parse_duration)),
       row("overhead", time, described("a tenth of it"), "the part of --latency that keeps a rank busy",
           into(c.overhead_seconds, parse_duration)),
       row("bandwidth", rate, no_default,
           "bandwidth of a node's link each way, which its ranks share, as 400Gbit or 50GB",
           into(c.bandwidth, parse_bandwidth)),
       row("local-latency", time, "500ns", "latency of a message, or of a look at a peer's memory, inside a node",
           into(c.local_latency_seconds, parse_duration)),
       row("local-bandwidth", rate, "10GB", "bandwidth of each rank inside a node",
           into(c.local_bandwidth, parse_bandwidth)),
       row("add-bandwidth", rate, "10GB", "bytes that a rank adds per second", into(c.add_bandwidth, parse_bandwidth)),
       row("bytes", Text{"SIZE"}, no_default,
           "size of the buffer; without it, the choice at each size from --min to --max", into(c.bytes, parse_size)),
       row("compute-seconds", Real{.min = 0, .max = 1e9, .above_min = true}, no_default,
           "compute time of one step; gives the scaling efficiency, compute / (compute + exposed communication)",
           into(c.compute_seconds)),
       row("overlap", Real{0, 1}, "0",
           "the part of the compute time behind which communication can hide; what is left is exposed",
           into(c.overlap))}};
}

std::optional<PredictionQuestion> prediction_of(const OptionValues& flags, const ClusterOptions& c,
                                                const collectives::Choice& untuned, const SizeRange& range,
                                                std::int64_t element_bytes) {
  if (!c.predict) {
    reject_without_predict(flags);
    return std::nullopt;
  }
  PredictionQuestion question{.overlap = c.overlap};
  require_given(flags, {"nodes", "ranks-per-node"});
  question.selection = {.shape = shape_of(c), .untuned = untuned};
  // Which of its ranks share a cache is not known.
  question.selection.ranks_per_cache = ranks_per_cache(std::vector<CpuSet>(static_cast<std::size_t>(c.ranks_per_node)));
  require_given(flags, {"latency", "bandwidth"});
  question.selection.prices = prices_of(c, flags.get<std::string>("overhead"));
  if (c.bytes > Bytes{0}) question.sizes = {c.bytes};
  if (c.bytes == Bytes{0})
    for (const Count count : part_counts(range, element_bytes, 1))
      question.sizes.push_back({count.value * element_bytes});
  if (c.compute_seconds > 0) question.compute_seconds = c.compute_seconds;
  return question;
}

double parse_duration(std::string_view text) {
  if (const auto seconds = quantity(text, seconds_of)) return *seconds;
  throw UsageError("'" + echo(text) + "' is not a duration; write a positive number with ns, us, ms or s, like 2us");
}

double parse_bandwidth(std::string_view text) {
  if (const auto rate = quantity(text, bytes_of)) return *rate;
  throw UsageError("'" + echo(text) +
                   "' is not a bandwidth; write a positive number of bits or bytes per second, with K, M, G or T for "
                   "powers of 1000, like 400Gbit or 50GB");
}

double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds) {
  const double exposed = std::max(0.0, communication_seconds - overlap * compute_seconds);
  return compute_seconds / (compute_seconds + exposed);
}

std::string prediction_text(const PredictionQuestion& q) {
  std::string text = head(q) + format_text("#%11s  %-31s %5s %14s", "bytes", "algorithm", "radix", "time (us)");
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
