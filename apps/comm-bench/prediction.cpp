// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/prediction.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

namespace lockstep::comm_bench {
namespace {

using collectives::Algorithm;

constexpr std::array flat_algorithms = {Algorithm::ring, Algorithm::double_tree, Algorithm::halving_doubling,
                                        Algorithm::recursive_doubling};
constexpr std::array hierarchical_algorithms = {Algorithm::hierarchical_ring, Algorithm::hierarchical_double_tree,
                                                Algorithm::hierarchical_halving_doubling,
                                                Algorithm::hierarchical_recursive_doubling};

collectives::CostModel shared_between(int ranks, collectives::CostModel model) {
  model.remote.beta_seconds_per_byte *= ranks;
  return model;
}

bool all_send_at_once(Algorithm algorithm) {
  return algorithm == Algorithm::halving_doubling || algorithm == Algorithm::recursive_doubling;
}

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
  const collectives::CostModel& m = q.model;
  std::string text = print("# all_reduce on %d nodes of %d ranks, predicted by closed formulas\n", q.cluster.nodes,
                           q.cluster.ranks_per_node);
  text += print("# between nodes %g us and %g GB/s a node, inside %g us and %g GB/s a rank, adding %g GB/s\n",
                m.remote.alpha_seconds * 1e6, 1e-9 / m.remote.beta_seconds_per_byte, m.local.alpha_seconds * 1e6,
                1e-9 / m.local.beta_seconds_per_byte, 1e-9 / m.gamma_seconds_per_byte);
  if (q.compute_seconds)
    text += print(
        "# efficiency: compute / (compute + exposed communication); compute %g s, of which %g %% can hide "
        "communication\n",
        *q.compute_seconds, 100 * q.overlap);
  return text;
}

std::string line(const PredictionQuestion& q, Bytes size, const Prediction& p, const char* mark) {
  return print("%14lld  %-31s %14.2f%s", static_cast<long long>(size.value), p.algorithm.c_str(), p.seconds * 1e6,
               mark) +
         efficiency_column(q, p.seconds);
}

}  // namespace

std::vector<Prediction> predict(const PredictionQuestion& q, Bytes size) {
  const collectives::CostModel shared = shared_between(q.cluster.ranks_per_node, q.model);
  std::vector<Prediction> all;
  for (const Algorithm algorithm : flat_algorithms) {
    const auto& model = all_send_at_once(algorithm) ? shared : q.model;
    all.push_back({std::string(name(algorithm)), flat_all_reduce_seconds(algorithm, q.cluster, size, model)});
  }
  for (const Algorithm algorithm : hierarchical_algorithms) {
    if (q.cluster.ranks_per_node == 1 || q.cluster.nodes == 1) break;
    all.push_back({std::string(name(algorithm)),
                   hierarchical_all_reduce_seconds(across_nodes(algorithm), q.cluster, size, shared)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Prediction& a, const Prediction& b) { return a.seconds < b.seconds; });
  return all;
}

double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds) {
  const double exposed = std::max(0.0, communication_seconds - overlap * compute_seconds);
  return compute_seconds / (compute_seconds + exposed);
}

std::string prediction_text(const PredictionQuestion& q) {
  std::string text = head(q) + print("#%13s  %-31s %14s", "bytes", "algorithm", "time (us)");
  text += q.compute_seconds ? "  efficiency\n" : "\n";
  for (const Bytes size : q.sizes) {
    const std::vector<Prediction> all = predict(q, size);
    const std::size_t shown = q.sizes.size() == 1 ? all.size() : 1;
    for (std::size_t i = 0; i < shown; ++i) text += line(q, size, all[i], shown > 1 && i == 0 ? " *" : "");
  }
  if (q.sizes.size() == 1) text += "# * the choice: the least\n";
  return text;
}

}  // namespace lockstep::comm_bench
