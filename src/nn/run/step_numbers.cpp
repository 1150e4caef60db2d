// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "nn/run/step.hpp"

namespace lockstep::nn {
namespace {

/// Gives out consecutive arrays of a block of memory, or only counts their bytes if there is none.
class Arrays {
 public:
  explicit Arrays(void* memory) : memory_(static_cast<std::byte*>(memory)) {}
  template <typename T>
  void take(T*& array, int count) {
    static_assert(sizeof(T) % alignof(double) == 0);
    array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_.value);
    bytes_.value += static_cast<std::int64_t>(sizeof(T)) * count;
  }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  Bytes bytes_;
};

/// Sets the addresses of the scalars that the host sets. @return their bytes
Bytes place_inputs(ops::StepBlock& block, ops::LossWeighting*& weightings, void* memory) {
  Arrays arrays(memory);
  arrays.take(block.scalars, 1);
  arrays.take(block.first_samples, block.leaves());
  arrays.take(weightings, block.terms);
  block.weightings = weightings;
  return arrays.bytes();
}

/// Sets the addresses of the scalars that the host reads. @return their bytes
Bytes place_results(ops::StepBlock& block, void* memory) {
  Arrays arrays(memory);
  arrays.take(block.result, 1);
  arrays.take(block.rank, block.terms);
  arrays.take(block.own, block.leaves() * block.terms);
  arrays.take(block.not_finite, block.parameters);
  arrays.take(block.found, block.found_count());
  arrays.take(block.faults, block.leaves());
  return arrays.bytes();
}

Bytes place_others(ops::StepBlock& block, void* memory) {
  Arrays arrays(memory);
  arrays.take(block.update, 1);
  arrays.take(block.ema, 1);
  arrays.take(block.sum, 1);
  arrays.take(block.state, 1);
  arrays.take(block.rng_keys, block.leaves());
  arrays.take(block.shard_weights, block.shards() * block.terms);
  arrays.take(block.weights, block.terms);
  arrays.take(block.factors, block.terms);
  arrays.take(block.sums, block.sums_count());
  arrays.take(block.trust_norms, 2 * block.parameters);
  return arrays.bytes();
}

ops::StepBlock sizes_of(const Graph& graph, const ModelOptions& options) {
  return {.options = options.step,
          .terms = static_cast<int>(graph.losses().size()),
          .first_shard = static_cast<int>(options.own_shards.first),
          .own_shards = static_cast<int>(options.own_shards.count),
          .parameters = static_cast<int>(graph.parameters().tensors().size()),
          .momentum = options.optimizer ? options.optimizer->momentum : 0,
          .beta2 = options.optimizer ? options.optimizer->beta2 : 0};
}

}  // namespace

std::vector<ops::LossWeighting> weightings_of(const Graph& graph) {
  std::vector<ops::LossWeighting> weightings;
  for (const LossTerm& of : graph.losses())
    weightings.push_back({.coefficient = of.coefficient, .by_weight = of.normalizer == Normalizer::weight});
  return weightings;
}

StepNumbers::StepNumbers(const ops::ComputeDevice& device, const Graph& graph, const ModelOptions& options, int slots)
    : device_(&device), block_(sizes_of(graph, options)), hosts_(static_cast<std::size_t>(slots), block_) {
  ops::LossWeighting* weightings = nullptr;
  uploaded_ = place_inputs(block_, weightings, nullptr);
  downloaded_ = place_results(block_, nullptr);
  memory_ = device.allocate({uploaded_.value + downloaded_.value + place_others(block_, nullptr).value});
  auto* memory = static_cast<std::byte*>(memory_.data());
  place_inputs(block_, weightings, memory);
  place_results(block_, memory + uploaded_.value);
  place_others(block_, memory + uploaded_.value + downloaded_.value);
  if (!device.queue().is_host()) {
    staging_ = device.allocate_staging({slots * (uploaded_.value + downloaded_.value)});
    memory = static_cast<std::byte*>(staging_.data());
  }
  const std::vector<ops::LossWeighting> of_graph = weightings_of(graph);
  for (ops::StepBlock& host : hosts_) {
    place_inputs(host, weightings, memory);
    place_results(host, memory + uploaded_.value);
    std::copy(of_graph.begin(), of_graph.end(), weightings);
    *host.scalars = {};
    memory += uploaded_.value + downloaded_.value;
  }
  set_state({});
}

void StepNumbers::upload(int slot, Queue queue) const {
  if (staging_.data() != nullptr) device_->copy(memory_.data(), host(slot).scalars, uploaded_, queue);
}

void StepNumbers::download(int slot, Queue queue) const {
  if (staging_.data() == nullptr) return;
  device_->copy(host(slot).result, block_.result, downloaded_, queue);
}

void StepNumbers::set_state(const ops::StepState& state) {
  device_->copy(block_.state, &state, {sizeof state}, device_->queue());
  device_->wait(device_->queue());
}

}  // namespace lockstep::nn
