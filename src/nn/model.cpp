// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "nn/fill.hpp"
#include "nn/program.hpp"

namespace lockstep::nn {
namespace {

void check_memory(const char* what, const Buffer& memory, const Layout& layout, DType dtype) {
  if (memory.count != layout.count() || memory.dtype != dtype) {
    throw Error(ErrorCode::invalid_argument, "the model needs " + std::to_string(layout.count().value) +
                                                 " elements of " + std::string(name(dtype)) + " for its " + what +
                                                 ", not " + std::to_string(memory.count.value) + " of " +
                                                 std::string(name(memory.dtype)));
  }
  if (memory.kind == MemoryKind::device) {
    throw Error(ErrorCode::unsupported, std::string("the model's ") + what + " must be in host reach");
  }
}

Buffer slot_of(const Buffer& memory, const TensorSlot& slot) { return slice(memory, slot.offset, slot.count); }

}  // namespace

void average_statistics(Buffer statistics, StatisticsExchange& exchange, std::int64_t samples) {
  if (samples < 0) {
    throw Error(ErrorCode::invalid_argument, "statistics cannot come from " + std::to_string(samples) + " samples");
  }
  if (statistics.count.value == 0) return;
  std::int64_t total = samples;
  exchange.sum({&total, {1}, DType::int64}, Queue::host());
  if (total == 0) return;
  scale(statistics, static_cast<double>(samples) / static_cast<double>(total));
  exchange.sum(statistics, Queue::host());
}

Model::Model(Network network, ops::Ops& ops, DType dtype, Observer* observer)
    : network_(std::move(network)), ops_(ops), dtype_(dtype), observer_(observer) {
  network_.check();
  if (!ops.supports(dtype)) {
    throw Error(ErrorCode::unsupported, "the " + std::string(ops.name()) + " operators cannot compute in " +
                                            std::string(lockstep::name(dtype)));
  }
  tensors_ = lay_out(network_);
}

Model::~Model() = default;

void Model::bind(Buffer parameters, Buffer gradients, Buffer state) {
  check_memory("parameters", parameters, tensors_.parameters, dtype_);
  check_memory("gradients", gradients, tensors_.parameters, dtype_);
  check_memory("state", state, tensors_.state, dtype_);
  parameter_memory_ = parameters;
  gradient_memory_ = gradients;
  state_memory_ = state;
  bound_ = true;
  awaits_backward_.reset();
  for (auto& [batch, program] : programs_) place(*program);
}

void Model::initialize(std::uint64_t seed) {
  require_bound();
  for (std::size_t i = 0; i < network_.layers().size(); ++i) {
    const std::vector<int>& parameters = tensors_.of_layer[i].parameters;
    const std::vector<int>& state = tensors_.of_layer[i].state;
    if (parameters.empty()) continue;
    const TensorSlot& weight = tensors_.parameters.at(parameters.front());
    if (!state.empty()) {
      fill(slot_of(parameter_memory_, weight), 1);
      fill(slot_of(parameter_memory_, tensors_.parameters.at(parameters.back())), 0);
      fill(slot_of(state_memory_, tensors_.state.at(state.front())), 0);
      fill(slot_of(state_memory_, tensors_.state.at(state.back())), 1);
      continue;
    }
    const std::int64_t fan_in = weight.count.value / weight.shape.front();
    for (const int parameter : parameters) {
      const TensorSlot& slot = tensors_.parameters.at(parameter);
      fill_uniform(slot_of(parameter_memory_, slot), seed, slot.name, 1 / std::sqrt(static_cast<double>(fan_in)));
    }
  }
}

void Model::prepare(std::int64_t batch) {
  if (batch < 0) throw Error(ErrorCode::invalid_argument, "a batch cannot have " + std::to_string(batch) + " samples");
  if (programs_.contains(batch)) return;
  auto made = std::make_unique<Program>(network_, tensors_, ops_, dtype_, batch);
  if (made->plan().total > arena_.bytes()) {
    arena_ = allocate_host(made->plan().total);
    awaits_backward_.reset();
    for (auto& [size, prepared] : programs_) place(*prepared);
  }
  place(*made);
  programs_.emplace(batch, std::move(made));
}

const ops::Operator& Model::operator_of(int layer, std::int64_t batch) const {
  return programs_.at(batch)->operator_of(layer);
}

Bytes Model::activation_bytes(std::int64_t batch) {
  prepare(batch);
  return programs_.at(batch)->plan().total;
}

void Model::place(Program& program) {
  program.place(tensors_, {.arena = static_cast<std::byte*>(arena_.data()),
                           .parameters = parameter_memory_,
                           .gradients = gradient_memory_,
                           .state = state_memory_});
}

ops::Loss::Result Model::forward(const void* images, const std::int32_t* labels, std::int64_t batch, bool training) {
  require_bound();
  prepare(batch);
  awaits_backward_.reset();
  const ops::Loss::Result result = programs_.at(batch)->forward(images, labels, training, observer_);
  if (training) awaits_backward_ = batch;
  return result;
}

void Model::backward(GradientSink& sink) {
  if (!awaits_backward_) {
    throw Error(ErrorCode::invalid_argument, "a backward pass needs a forward pass for training before it");
  }
  programs_.at(*std::exchange(awaits_backward_, std::nullopt))->backward(sink, observer_);
}

std::vector<int> Model::backward_order() const {
  std::vector<int> order(tensors_.parameters.tensors().size());
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

void Model::average_state(StatisticsExchange& exchange, std::int64_t samples) {
  require_bound();
  average_statistics(state_memory_, exchange, samples);
}

void Model::require_bound() const {
  if (!bound_) throw Error(ErrorCode::invalid_argument, "the model has no memory yet; call bind() first");
}

}  // namespace lockstep::nn
