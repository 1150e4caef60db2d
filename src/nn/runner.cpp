// SPDX-License-Identifier: Apache-2.0
#include "nn/runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace lockstep::nn {
namespace {

/// A loss term without weight contributes zero; this avoids 0/0.
double divided(double sum, double by) { return by == 0 ? 0 : sum / by; }

}  // namespace

double loss_of(const Graph& graph, std::span<const ops::LossSums> loss_sums, double samples) {
  double loss = 0;
  for (std::size_t term = 0; term < loss_sums.size(); ++term) {
    const LossTerm& of = graph.losses()[term];
    loss += of.coefficient *
            divided(loss_sums[term].loss, of.normalizer == Normalizer::samples ? samples : loss_sums[term].weight);
  }
  return loss;
}

template <typename Body>
void Runner::timed(const std::string& label, int lane, const Body& body) {
  if (observer_ == nullptr) return body();
  const Clock::time_point begin = Clock::now();
  body();
  const std::string track = lane <= 0 ? "compute" : "compute " + std::to_string(lane + 1);
  observer_->span({track, label, begin, Clock::now(), {}});
}

void Runner::submit(const Item& item) {
  const auto lane_of = [](const auto& kind) {
    if constexpr (requires { kind.lane; }) {
      return kind.lane;
    } else {
      return no_lane;
    }
  };
  const int lane = std::visit(lane_of, item);
  if (lane == no_lane || lanes_.count() == 1) return run_now(item);
  lanes_.add(lane, item);
}

void Runner::run_now(const Item& item) {
  std::visit([this](const auto& kind) { this->run(kind); }, item);
}

void Runner::run(const Join& /*item*/) {
  lanes_.run([this](const Item& item) { run_now(item); });
}

void Runner::run(const Run& item) {
  timed(*item.label, item.lane, [&] { item.kernel->run(item.pass, *item.call); });
}

void Runner::run(const Update& item) {
  timed(*item.label, no_lane, [&] { ops_.update(item.step); });
}

void Runner::run(const Zero& item) { std::memset(item.data, 0, static_cast<std::size_t>(item.bytes.value)); }

/// Adds up the micro-batches of each shard in their order. Other ranks' shards are zero.
void Runner::add_leaves() {
  const std::size_t terms = numbers_.rank.size();
  const auto shards = static_cast<std::size_t>(numbers_.own_shards.count);
  const std::size_t micro_batches = numbers_.own.size() / terms / shards;
  std::fill(numbers_.rank.begin(), numbers_.rank.end(), ops::LossSums{});
  std::fill(numbers_.shards.begin(), numbers_.shards.end(), ops::LossSums{});
  for (std::size_t leaf = 0; leaf < shards * micro_batches; ++leaf) {
    const std::size_t shard = static_cast<std::size_t>(numbers_.own_shards.first) + leaf / micro_batches;
    for (std::size_t term = 0; term < terms; ++term) {
      numbers_.shards[shard * terms + term] += numbers_.own[leaf * terms + term];
      numbers_.rank[term] += numbers_.own[leaf * terms + term];
    }
  }
}

void Runner::run(const SumWeights& /*item*/) {
  add_leaves();
  const std::size_t terms = numbers_.rank.size();
  for (std::size_t i = 0; i < numbers_.shard_weights.size(); ++i) {
    const bool by_weight = graph_.losses()[i % terms].normalizer == Normalizer::weight;
    numbers_.shard_weights[i] = by_weight ? numbers_.shards[i].weight : 0;
  }
  // For each shard only one rank has a nonzero number, so the order in which ranks are added does not matter.
  peers_.sum(numbers_.shard_weights);
  for (std::size_t term = 0; term < terms; ++term)
    numbers_.weights[term] = canonical_tree_fold(
        static_cast<int>(shards()),
        [&](int shard) { return numbers_.shard_weights[static_cast<std::size_t>(shard) * terms + term]; },
        std::plus<>());
}

void Runner::run(const SetFactors& item) {
  for (std::size_t leaf = 0; leaf < item.first_samples->size(); ++leaf) {
    numbers_.rng_keys[leaf] = numbers_.scalars.rng_key;
    numbers_.rng_keys[leaf].first_sample += (*item.first_samples)[leaf];
  }
  for (std::size_t term = 0; term < numbers_.factors.size(); ++term) {
    const LossTerm& of = graph_.losses()[term];
    const double by = of.normalizer == Normalizer::samples ? numbers_.scalars.samples : numbers_.weights[term];
    numbers_.factors[term] = divided(of.coefficient * numbers_.scalars.loss_scale, by);
  }
}

void Runner::run(const Finish& item) {
  add_leaves();
  numbers_.squares = 0;
  const auto add_squares = [this, &item] {
    for (const ConstBuffer& gradients : *item.clipped) numbers_.squares += ops_.sum_of_squares(gradients);
  };
  // Ranks without parameters to update also take part, because the reduction is collective.
  const std::span<double> found(&numbers_.squares, numbers_.clip_norm > 0 ? 1 : 0);
  numbers_.finite = peers_.finish(ops::numbers(numbers_.shards), found, add_squares);
  const std::size_t terms = numbers_.rank.size();
  const auto add = [](ops::LossSums a, const ops::LossSums& b) { return a += b; };
  for (std::size_t term = 0; term < terms; ++term)
    numbers_.total[term] = canonical_tree_fold(
        static_cast<int>(shards()),
        [&](int shard) { return numbers_.shards[static_cast<std::size_t>(shard) * terms + term]; }, add);
}

void Runner::run(const Gate& /*item*/) {
  StepResult& result = numbers_.result;
  result.loss = loss_of(graph_, numbers_.total, numbers_.scalars.samples);
  result.correct = numbers_.total.front().correct;
  result.finite = numbers_.finite && std::isfinite(result.loss);
  result.gradient_norm = std::sqrt(numbers_.squares) / numbers_.scalars.loss_scale;
  // As in PyTorch's clip_grad_norm_, the divisor is slightly larger than the norm.
  const double shortened =
      numbers_.clip_norm == 0 ? 1 : std::min(1.0, numbers_.clip_norm / (result.gradient_norm + 1e-6));
  const auto update = static_cast<double>(numbers_.scalars.updates + 1);
  numbers_.update = {.learning_rate = numbers_.scalars.learning_rate,
                     .gradient_scale = shortened / numbers_.scalars.loss_scale,
                     .first_correction = 1 - std::pow(numbers_.momentum, update),
                     .second_correction = 1 - std::pow(numbers_.beta2, update),
                     .go = result.finite};
  std::fill(numbers_.trust_norms.begin(), numbers_.trust_norms.end(), 0.0);
}

}  // namespace lockstep::nn
