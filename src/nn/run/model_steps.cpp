// SPDX-License-Identifier: Apache-2.0
// The steps of a model: their inputs, the steps in flight, their results, and predictions.
#include <algorithm>
#include <cstring>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/model.hpp"
#include "nn/run/prepared_graph.hpp"

namespace lockstep::nn {

PlacedSteps& Model::set_inputs(const Feed& feed, bool training, int slot) {
  require_bound();
  require_inputs(feed);
  PreparedGraph& graph = prepared(feed.samples, training, feed.extents);
  PlacedSteps& steps = training ? graph.training() : graph.evaluation();
  if (ops_.device().queue().is_host()) {
    steps.set_inputs(feed.inputs);
  } else {
    copy_inputs(feed, slot);
  }
  return steps;
}

/// Submits copies of the feed to the device's memory, which the step that used the slot before no longer reads.
void Model::copy_inputs(const Feed& feed, int slot) {
  const ops::ComputeDevice& device = ops_.device();
  Slot& used = slots_[static_cast<std::size_t>(slot)];
  for (std::size_t i = 0; i < used.inputs.size(); ++i) {
    auto& [memory, staging] = used.inputs[i];
    const TensorSpec& spec = plans(feed.extents).graph.inputs()[i];
    const Bytes bytes = input_bytes(spec, feed.samples);
    const void* from = feed.inputs[i];
    if (!feed.stays && bytes.value > 0) {
      if (staging.bytes() < memory.bytes()) staging = device.allocate_staging(memory.bytes());
      from = std::memcpy(staging.data(), from, static_cast<std::size_t>(bytes.value));
    }
    device.copy(memory.data(), from, bytes, device.copy_queue());
  }
  used.has_inputs->record(device.copy_queue());
  used.has_inputs->hold_back(device.queue());
}

int Model::max_in_flight() const { return device().queue().is_host() ? 1 : 2; }

void Model::set(const Feed& feed, const StepScalars& scalars) {
  if (in_flight() == max_in_flight()) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(in_flight()) + " steps have been submitted and not finished: call finish() first");
  }
  const int slot = slot_of(submitted_);
  const std::span<const std::int64_t> first_samples = set_inputs(feed, true, slot).first_samples();
  std::copy(first_samples.begin(), first_samples.end(), numbers_->first_samples(slot).begin());
  numbers_->scalars(slot) = scalars;
  slots_[static_cast<std::size_t>(slot)].extents = feed.extents;
}

void Model::set_state(const StepState& state) {
  require_none_in_flight();
  numbers_->set_state(state);
}

void Model::submit_items(std::int64_t samples, ItemQueue& queue, std::size_t extents) {
  require_bound();
  for (const Item& item : prepared(samples, true, extents).training().items(slot_of(submitted_))) queue.submit(item);
}

void Model::submit(const Feed& feed, const StepScalars& scalars, GradientReducer& reducer) {
  const bool is_over_ranks = options_.synchronized_parts > 0 && options_.step.shards == 0;
  if (is_over_ranks && options_.synchronized_parts != reducer.size()) {
    throw Error(ErrorCode::invalid_argument, "a model whose batch norm is synchronized over " +
                                                 std::to_string(options_.synchronized_parts) +
                                                 " ranks cannot take a step among " + std::to_string(reducer.size()));
  }
  if (in_flight() > 0 && !is_prepared(feed.samples, true, feed.extents)) wait_until_idle(reducer);
  set(feed, scalars);
  Runner runner(*numbers_, *lanes_, reducer, options_.observer);
  const auto submit = [&] { submit_items(feed.samples, runner, feed.extents); };
  const ops::ComputeDevice& device = ops_.device();
  const int slot = slot_of(submitted_);
  if (device.queue().is_host() || !options_.passes.capture || options_.observer != nullptr) {
    submit();
  } else {
    // All ranks have the same global batch, and so capture and launch in the same steps.
    PlacedSteps& steps = prepared(feed.samples, true, feed.extents).training();
    if (steps.will_capture(scalars.samples, slot)) {
      wait_until_idle(reducer);  // no operation may be under way while a stream is captured
      reducer.progress();
    }
    steps.submit_or_launch(device, scalars.samples, slot, submit);
  }
  slots_[static_cast<std::size_t>(slot)].done->record(device.queue());
  ++submitted_;
}

void Model::wait_until_idle(GradientReducer& reducer) const {
  while (!ops_.device().is_idle(ops_.device().queue())) reducer.progress();
}

const StepResult& Model::finish(GradientReducer& reducer) {
  if (in_flight() == 0) throw Error(ErrorCode::invalid_argument, "no step has been submitted that could be finished");
  const auto slot = static_cast<std::size_t>(slot_of(finished_));
  while (!slots_[slot].done->is_done()) reducer.progress();
  ++finished_;
  return numbers_->result(slot_of(finished_ - 1));
}

std::span<const ops::LossSums> Model::own_loss_sums() const { return numbers_->rank(last_slot()); }
std::span<const double> Model::not_finite_gradients() const { return numbers_->not_finite(last_slot()); }
std::span<const double> Model::not_finite_sums() const { return numbers_->sums_not_finite(last_slot()); }

ops::Fault Model::fault() const {
  const std::span<const ops::Fault> faults = numbers_->faults(last_slot());
  const std::span<const std::int64_t> first_samples = numbers_->first_samples(last_slot());
  for (std::size_t leaf = 0; leaf < faults.size(); ++leaf) {
    if (faults[leaf].code == ops::FaultCode::none) continue;
    ops::Fault fault = faults[leaf];
    fault.sample += first_samples[leaf];
    return fault;
  }
  return {};
}

std::string Model::text_of(const ops::Fault& fault, const std::string& sample) const {
  return text_of(graphs_[slots_[static_cast<std::size_t>(last_slot())].extents].passed, fault, sample);
}

std::string Model::text_of(const Graph& passed, const ops::Fault& fault, const std::string& sample) const {
  const std::string name =
      fault.node < 0 ? "" : "'" + passed.nodes()[static_cast<std::size_t>(fault.node)].name + "': ";
  return name + ops::text_of(fault, sample);
}

Prediction Model::predict(const Feed& feed) {
  require_none_in_flight();
  PlacedSteps& steps = set_inputs(feed, false, 0);
  SingleRank alone(ops_.device());
  Runner runner(*numbers_, *lanes_, alone, options_.observer);
  for (const Item& item : steps.items(0)) runner.run_now(item);
  ops_.device().wait(ops_.device().queue());
  if (const ops::Fault& fault = numbers_->faults(0).front(); fault.code != ops::FaultCode::none)
    throw Error(ErrorCode::invalid_argument,
                text_of(plans(feed.extents).passed, fault, "sample " + std::to_string(fault.sample)));
  return {.losses = numbers_->first_leaf(0), .outputs = steps.outputs()};
}

void Model::require_none_in_flight() const {
  if (in_flight() == 0) return;
  throw Error(ErrorCode::invalid_argument,
              std::to_string(in_flight()) + " steps are under way: call finish() for each of them first");
}

}  // namespace lockstep::nn
