// SPDX-License-Identifier: Apache-2.0
#include "trainer/replica/store.hpp"

#include <algorithm>

#include "trainer/replica/host_mirror.hpp"

namespace lockstep::trainer {
namespace {

/// Returns the numbers of all constants of a graph, one after the other.
Allocation constants_of(const nn::Model& model) {
  std::vector<double> values;
  for (const nn::Constant& constant : model.graph().constants())
    values.insert(values.end(), constant.values.begin(), constant.values.end());
  Allocation memory = ops::host_device().allocate({std::ssize(values) * size_of(model.dtype())});
  if (model.dtype() == DType::float64) std::ranges::copy(values, static_cast<double*>(memory.data()));
  if (model.dtype() == DType::float32)
    std::ranges::transform(values, static_cast<float*>(memory.data()), [](double x) { return static_cast<float>(x); });
  return memory;
}

}  // namespace

Store::Store(ProcessGroup& group, const nn::Model& model, DataParallel& data_parallel, const TrainerOptions& options)
    : model_(&model),
      data_parallel_(&data_parallel),
      rule_(options.optimizer.rule),
      is_sharded_(options.zero),
      has_averages_(options.step.ema > 0),
      has_gradient_sums_(options.step.sum_steps),
      statistics_(group, model, options) {
  const Bytes own{total(owned()).value * size_of(model.dtype())};
  for (std::size_t i = 0; i < state_names().size(); ++i) optimizer_state_.push_back(group.allocate(own));
  averages_ = model.device().allocate(has_averages_ ? own : Bytes{});
  constants_ = constants_of(model);
  gradient_sums_ = model.device().allocate(has_gradient_sums_ ? own : Bytes{});
}

nn::Model::Memory Store::memory() const {
  const bool has_parts_of_sums = is_sharded_ && !statistics_.has_shards();
  return {.parameters = values(),
          .gradients = data_parallel_->gradient_places(),
          .state = statistics_.all(),
          .optimizer_state = optimizer_state(),
          .averages = averages(),
          .gradient_sums = gradient_sums(),
          .owned = is_sharded_ ? std::optional(owned()) : std::nullopt,
          .summed = has_parts_of_sums ? std::optional(data_parallel_->summed()) : std::nullopt,
          .buckets = data_parallel_->buckets(),
          .gathered_averages = data_parallel_->gradients()};
}

std::vector<Buffer> Store::optimizer_state() const {
  std::vector<Buffer> buffers;
  for (const Allocation& state : optimizer_state_) buffers.push_back(state.as(model_->dtype()));
  return buffers;
}

Bytes Store::optimizer_bytes() const {
  Bytes sum{averages_.bytes().value + gradient_sums_.bytes().value};
  for (const Allocation& state : optimizer_state_) sum.value += state.bytes().value;
  return sum;
}

/// Calls `action` with each of this rank's parts in `own`, which has only these, and in a flat buffer of the layout.
template <typename Action>
void Store::for_each_owned(const Buffer& own, const Buffer& whole, const Action& action) const {
  Count before;
  for (const LayoutPart& part : owned()) {
    action(slice(own, before, part.count), slice(whole, part.offset, part.count));
    before.value += part.count.value;
  }
}

void Store::start_averages() {
  if (!has_averages_) return;
  for_each_owned(averages(), values(),
                 [&](const Buffer& own, const Buffer& whole) { copy_and_wait(model_->device(), own, whole); });
  statistics_.start_averages();
}

void Store::assemble(const Buffer& own, const Buffer& whole) {
  for_each_owned(own, whole,
                 [&](const Buffer& part, const Buffer& there) { copy_and_wait(model_->device(), there, part); });
  data_parallel_->gather(whole);
}

void Store::gather_averages() {
  if (is_sharded_ && has_averages_) assemble(averages(), data_parallel_->gradients());
}

}  // namespace lockstep::trainer
