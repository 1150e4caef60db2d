// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/optimizer.hpp"

#include <algorithm>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

void check(const OptimizerOptions& options) {
  const auto require = [](bool holds, const std::string& what, double value, const char* remedy) {
    if (!holds) throw Error(ErrorCode::invalid_argument, what + " of " + std::to_string(value) + ": " + remedy);
  };
  const bool has_moments = Optimizer::state_names(options.rule).size() > 1;
  require(options.momentum >= 0, "a momentum", options.momentum, "it cannot be negative");
  require(!has_moments || options.momentum < 1, "a momentum", options.momentum,
          "AdamW and LAMB take 0 … 1, 1 excluded");
  require(options.beta2 >= 0 && options.beta2 < 1, "a beta2", options.beta2, "it must be in 0 … 1, 1 excluded");
  require(options.epsilon >= 0, "an epsilon", options.epsilon, "it cannot be negative");
  require(options.trust_coefficient > 0, "a trust coefficient", options.trust_coefficient, "it must be above 0");
  require(options.weight_decay >= 0, "a weight decay", options.weight_decay, "it cannot be negative");
  require(!options.nesterov || options.momentum > 0, "a momentum", options.momentum,
          "Nesterov's method needs one above 0");
  if (options.nesterov && options.rule != ops::UpdateRule::sgd) {
    throw Error(ErrorCode::invalid_argument,
                "Nesterov momentum is for SGD, not for " + std::string(name(options.rule)) + ": leave it out");
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

std::string_view name(ops::UpdateRule rule) {
  switch (rule) {
    case ops::UpdateRule::sgd: return "SGD";
    case ops::UpdateRule::adamw: return "AdamW";
    case ops::UpdateRule::lars: return "LARS";
    case ops::UpdateRule::lamb: return "LAMB";
  }
  return "";
}

Optimizer::Optimizer(const Layout& parameters, OptimizerOptions options)
    : options_(std::move(options)), count_(parameters.count()) {
  check(options_);
  check_frozen(options_.frozen, parameters);
  const bool adapts = options_.rule == ops::UpdateRule::lars || options_.rule == ops::UpdateRule::lamb;
  for (std::size_t i = 0; i < parameters.tensors().size(); ++i) {
    const TensorSlot& slot = parameters.tensors()[i];
    const auto is_named = [&](const std::string& name) { return names(name, slot.name); };
    if (std::any_of(options_.frozen.begin(), options_.frozen.end(), is_named)) continue;
    const bool is_whole = options_.decay_vectors || slot.shape.size() > 1;
    add({.part = {slot.offset, slot.count},
         .weight_decay = is_whole ? options_.weight_decay : 0,
         .adapted = adapts && is_whole ? static_cast<int>(i) : -1,
         .is_bias = options_.bias_rate && slot.name.ends_with(".bias")});
  }
}

std::vector<std::string_view> Optimizer::state_names(ops::UpdateRule rule) {
  if (rule == ops::UpdateRule::sgd || rule == ops::UpdateRule::lars) return {"momentum_buffer"};
  return {"exp_avg", "exp_avg_sq"};
}

/// Extends the last range if the tensor continues it. The padding between two tensors is zero and stays zero.
void Optimizer::add(const Range& range) {
  const auto [offset, count] = range.part;
  const bool goes_on =
      !ranges_.empty() && ranges_.back().is_like(range) &&
      offset.value - (ranges_.back().part.offset.value + ranges_.back().part.count.value) < Layout::alignment;
  if (goes_on) {
    ranges_.back().part.count.value = offset.value + count.value - ranges_.back().part.offset.value;
  } else {
    ranges_.push_back(range);
  }
}

void Optimizer::check_buffers(const Buffer& parameters, const ConstBuffer& gradients, std::span<const Buffer> state,
                              Count owned) const {
  const auto suits = [&](const ConstBuffer& buffer, Count count) {
    return buffer.count == count && buffer.dtype == parameters.dtype;
  };
  const bool state_suits =
      state.size() == state_names(options_.rule).size() &&
      std::all_of(state.begin(), state.end(), [&](const Buffer& buffer) { return suits(buffer, owned); });
  if (suits(parameters, count_) && suits(gradients, count_) && state_suits) return;
  std::string counts;
  for (const Buffer& buffer : state) counts += " and " + std::to_string(buffer.count.value);
  throw Error(ErrorCode::invalid_argument,
              "parameters, gradients and optimizer state must have one dtype; parameters and gradients " +
                  std::to_string(count_.value) + " elements, as the layout, and each of " +
                  std::to_string(state_names(options_.rule).size()) + " state buffers " + std::to_string(owned.value) +
                  ", as its parts; the counts are " + std::to_string(parameters.count.value) + ", " +
                  std::to_string(gradients.count.value) + counts);
}

std::vector<ops::UpdateStep> Optimizer::steps(Buffer parameters, ConstBuffer gradients, std::span<const Buffer> state,
                                              const ops::UpdateScalars& scalars, std::span<double> squares,
                                              std::span<const LayoutPart> parts, const ConstBuffer& sums) const {
  check_buffers(parameters, gradients, state, total(parts));
  std::vector<ops::UpdateStep> steps;
  std::int64_t before = 0;  // elements of earlier parts
  for (const LayoutPart& part : parts) {
    for (const Range& range : ranges_) {
      const auto [offset, count] = common(range.part, part);
      if (count.value == 0) continue;
      const Count in_state{before + offset.value - part.offset.value};
      steps.push_back(
          {.rule = options_.rule,
           .parameters = slice(parameters, offset, count).data,
           .gradients = (sums.data != nullptr ? slice(sums, in_state, count) : slice(gradients, offset, count)).data,
           .first = slice(state[0], in_state, count).data,
           .second = state.size() > 1 ? slice(state[1], in_state, count).data : nullptr,
           .count = count,
           .dtype = parameters.dtype,
           .momentum = options_.momentum,
           .nesterov = options_.nesterov,
           .beta2 = options_.beta2,
           .epsilon = options_.epsilon,
           .weight_decay = range.weight_decay,
           .trust_coefficient = options_.trust_coefficient,
           .is_bias = range.is_bias,
           .squares = range.adapted < 0 ? nullptr : &squares[2 * static_cast<std::size_t>(range.adapted)],
           .scalars = &scalars});
    }
    before += part.count.value;
  }
  return steps;
}

std::vector<LayoutPart> Optimizer::updated(std::span<const LayoutPart> parts) const {
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
