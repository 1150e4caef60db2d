// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/optimizer.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

void check(const SgdOptions& options) {
  if (!(options.momentum >= 0) || !(options.weight_decay >= 0)) {
    throw Error(ErrorCode::invalid_argument, "momentum (" + std::to_string(options.momentum) + ") and weight decay (" +
                                                 std::to_string(options.weight_decay) + ") cannot be negative");
  }
  if (options.nesterov && options.momentum == 0) {
    throw Error(ErrorCode::invalid_argument, "Nesterov's method needs a momentum above 0");
  }
}

/// Returns whether `name` is the parameter's name or its beginning up to a dot.
bool names(const std::string& name, const std::string& parameter) {
  return parameter == name || (parameter.starts_with(name) && parameter[name.size()] == '.');
}

void check_frozen(const std::vector<std::string>& frozen, const Layout& parameters) {
  const std::vector<TensorSlot>& slots = parameters.tensors();
  for (const std::string& name : frozen) {
    if (std::any_of(slots.begin(), slots.end(), [&](const TensorSlot& slot) { return names(name, slot.name); }))
      continue;
    std::vector<std::string_view> known;
    for (const TensorSlot& slot : slots) known.emplace_back(slot.name);
    throw Error(ErrorCode::invalid_argument, unknown("parameter to be frozen", name, known));
  }
}

}  // namespace

Sgd::Sgd(const Layout& parameters, SgdOptions options) : options_(std::move(options)), count_(parameters.count()) {
  check(options_);
  check_frozen(options_.frozen, parameters);
  for (const TensorSlot& slot : parameters.tensors()) {
    const auto is_named = [&](const std::string& name) { return names(name, slot.name); };
    if (std::any_of(options_.frozen.begin(), options_.frozen.end(), is_named)) continue;
    add(slot, options_.decay_vectors || slot.shape.size() > 1 ? options_.weight_decay : 0);
  }
}

/// Extends the last range if the tensor continues it. The padding between two tensors is zero and stays zero.
void Sgd::add(const TensorSlot& slot, double weight_decay) {
  const std::int64_t end = slot.offset.value + slot.count.value;
  const bool goes_on =
      !ranges_.empty() && ranges_.back().weight_decay == weight_decay &&
      slot.offset.value - (ranges_.back().part.offset.value + ranges_.back().part.count.value) < Layout::alignment;
  if (goes_on) {
    ranges_.back().part.count.value = end - ranges_.back().part.offset.value;
  } else {
    ranges_.push_back({{slot.offset, slot.count}, weight_decay});
  }
}

std::vector<ops::SgdStep> Sgd::steps(Buffer parameters, ConstBuffer gradients, Buffer velocity,
                                     const ops::UpdateScalars& scalars) const {
  const LayoutPart whole{{0}, count_};
  return steps(parameters, gradients, velocity, scalars, std::span(&whole, 1));
}

std::vector<ops::SgdStep> Sgd::steps(Buffer parameters, ConstBuffer gradients, Buffer velocity,
                                     const ops::UpdateScalars& scalars, std::span<const LayoutPart> parts) const {
  const bool counts_agree = parameters.count == count_ && gradients.count == count_ && velocity.count == total(parts);
  const bool dtypes_agree = gradients.dtype == parameters.dtype && velocity.dtype == parameters.dtype;
  if (!counts_agree || !dtypes_agree) {
    throw Error(ErrorCode::invalid_argument,
                "parameters, gradients and velocity must have one dtype and " + std::to_string(count_.value) +
                    " elements, as the layout (velocity " + std::to_string(total(parts).value) +
                    ", as its parts); the counts are " + std::to_string(parameters.count.value) + ", " +
                    std::to_string(gradients.count.value) + " and " + std::to_string(velocity.count.value));
  }
  std::vector<ops::SgdStep> steps;
  std::int64_t before = 0;  // elements of earlier parts
  for (const LayoutPart& part : parts) {
    for (const Range& range : ranges_) {
      const auto [offset, count] = common(range.part, part);
      if (count.value == 0) continue;
      steps.push_back({.parameters = slice(parameters, offset, count).data,
                       .gradients = slice(gradients, offset, count).data,
                       .velocity = slice(velocity, {before + offset.value - part.offset.value}, count).data,
                       .count = count,
                       .dtype = parameters.dtype,
                       .momentum = options_.momentum,
                       .nesterov = options_.nesterov,
                       .weight_decay = range.weight_decay,
                       .scalars = &scalars});
    }
    before += part.count.value;
  }
  return steps;
}

std::vector<LayoutPart> Sgd::updated(std::span<const LayoutPart> parts) const {
  std::vector<LayoutPart> updated;
  for (const LayoutPart& part : parts) {
    for (const Range& range : ranges_) {
      const LayoutPart here = common(range.part, part);
      if (here.count.value > 0) updated.push_back(here);
    }
  }
  return updated;
}

}  // namespace lockstep::nn
