// SPDX-License-Identifier: Apache-2.0
#include "nn/runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::nn {
namespace {

/// Nothing that is divided by no weight is nothing.
double divided(double sum, double by) { return by == 0 ? 0 : sum / by; }

}  // namespace

double loss_of(const Graph& graph, std::span<const ops::Figures> figures, double samples) {
  double loss = 0;
  for (std::size_t term = 0; term < figures.size(); ++term) {
    const LossTerm& of = graph.losses()[term];
    loss += of.coefficient *
            divided(figures[term].loss, of.normaliser == Normaliser::samples ? samples : figures[term].weight);
  }
  return loss;
}

template <typename Body>
void Runner::timed(const std::string& label, const Body& body) {
  if (observer_ == nullptr) return body();
  const Clock::time_point begin = Clock::now();
  body();
  observer_->span({"compute", label, begin, Clock::now(), {}});
}

void Runner::run(const Run& item) {
  timed(*item.label, [&] { item.kernel->run(item.pass, *item.call); });
}

void Runner::run(const Update& item) {
  timed(*item.label, [&] { ops_.sgd(item.sgd); });
}

void Runner::run(const Zero& item) { std::memset(item.data, 0, static_cast<std::size_t>(item.bytes.value)); }

void Runner::add_leaves() {
  const std::size_t terms = numbers_.rank.size();
  for (std::size_t term = 0; term < terms; ++term) {
    numbers_.rank[term] = {};
    for (std::size_t i = term; i < numbers_.own.size(); i += terms) numbers_.rank[term] += numbers_.own[i];
  }
}

void Runner::run(const SumWeights& /*item*/) {
  add_leaves();
  for (std::size_t term = 0; term < numbers_.weights.size(); ++term) {
    const bool by_weight = graph_.losses()[term].normaliser == Normaliser::weight;
    numbers_.weights[term] = by_weight ? numbers_.rank[term].weight : 0;
  }
  peers_.sum(numbers_.weights);
}

void Runner::run(const SetFactors& item) {
  for (std::size_t leaf = 0; leaf < item.first_samples->size(); ++leaf) {
    numbers_.occasions[leaf] = numbers_.scalars.occasion;
    numbers_.occasions[leaf].first_sample += (*item.first_samples)[leaf];
  }
  for (std::size_t term = 0; term < numbers_.factors.size(); ++term) {
    const LossTerm& of = graph_.losses()[term];
    const double by = of.normaliser == Normaliser::samples ? numbers_.scalars.samples : numbers_.weights[term];
    numbers_.factors[term] = divided(of.coefficient * numbers_.scalars.loss_scale, by);
  }
}

void Runner::run(const Finish& /*item*/) {
  add_leaves();
  numbers_.total = numbers_.rank;
  numbers_.squares = 0;
  numbers_.finite = peers_.finish(ops::numbers(numbers_.total));
}

void Runner::run(const Gate& /*item*/) {
  StepResult& result = numbers_.result;
  result.loss = loss_of(graph_, numbers_.total, numbers_.scalars.samples);
  result.correct = numbers_.total.front().correct;
  result.finite = numbers_.finite && std::isfinite(result.loss);
  result.gradient_norm = std::sqrt(numbers_.squares) / numbers_.scalars.loss_scale;
  // As PyTorch's clip_grad_norm_, which divides by a little more than the norm.
  const double shortened =
      numbers_.clip_norm == 0 ? 1 : std::min(1.0, numbers_.clip_norm / (result.gradient_norm + 1e-6));
  numbers_.update = {.learning_rate = numbers_.scalars.learning_rate,
                     .gradient_scale = shortened / numbers_.scalars.loss_scale,
                     .go = result.finite};
}

}  // namespace lockstep::nn
