// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/prediction.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

namespace lockstep::comm_bench {
namespace {

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
