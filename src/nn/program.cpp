// SPDX-License-Identifier: Apache-2.0
#include "nn/program.hpp"

#include <algorithm>
#include <string_view>

#include "nn/make_operator.hpp"

namespace lockstep::nn {
namespace {

template <typename Body>
void timed(Observer* observer, std::string_view name, const Body& body) {
  if (observer == nullptr) return body();
  const Clock::time_point begin = Clock::now();
  body();
  observer->span({"compute", name, begin, Clock::now(), {}});
}

}  // namespace

Program::Program(const Network& network, const Tensors& tensors, ops::Ops& ops, DType dtype, std::int64_t batch) {
  for (std::size_t i = 0; i < network.layers().size(); ++i) {
    Call& call = calls_.emplace_back();
    call.layer = &network.layers()[i];
    call.tensors = &tensors.of_layer[i];
    call.forward_name = "forward " + call.layer->name;
    call.backward_name = "backward " + call.layer->name;
  }
  const ops::Shape& image = network.image();
  make_operators(ops, ops::Format::plain({batch, image.channels, image.height, image.width}, dtype));
  plan_forward();
  plan_backward(ops);
  plan_ = plan_memory(lifetimes_);
}

void Program::make_operators(ops::Ops& ops, const ops::Format& images) {
  std::vector<ops::Format> inputs;
  for (Call& call : calls_) {
    inputs.clear();
    for (const int index : call.layer->inputs) {
      inputs.push_back(index == Network::input ? images : calls_[static_cast<std::size_t>(index)].op->output());
    }
    call.op = make_operator(ops, call.layer->kind, inputs);
  }
  loss_ = ops.softmax_cross_entropy(calls_.back().op->output());
}

void Program::plan_forward() {
  const int layers = static_cast<int>(calls_.size());
  for (int l = 0; l < layers; ++l) {
    Call& call = calls_[static_cast<std::size_t>(l)];
    call.output = use(add_buffer(call.op->output().bytes, l), 2 * layers - l);
    if (call.op->saved_bytes().value > 0) {
      call.saved = use(add_buffer(call.op->saved_bytes(), l), 2 * layers - l);
    }
  }
}

void Program::plan_backward(ops::Ops& ops) {
  const int layers = static_cast<int>(calls_.size());
  std::vector<int> gradient_of(calls_.size(), none);  // of each layer's result, as far as it has been added up
  gradient_of.back() = add_buffer(calls_.back().op->output().bytes, layers);
  for (std::size_t l = calls_.size(); l-- > 0;) {
    calls_[l].output_gradient = use(gradient_of[l], 2 * layers - static_cast<int>(l));
    plan_input_gradients(ops, l, gradient_of);
  }
}

void Program::plan_input_gradients(ops::Ops& ops, std::size_t layer, std::vector<int>& gradient_of) {
  Call& call = calls_[layer];
  const int now = 2 * static_cast<int>(calls_.size()) - static_cast<int>(layer);
  for (const int index : call.layer->inputs) {
    if (index == Network::input) {
      call.input_gradients.push_back(none);
      continue;
    }
    const ops::Format& format = calls_[static_cast<std::size_t>(index)].op->output();
    const int term = add_buffer(format.bytes, now);
    call.input_gradients.push_back(term);
    int& so_far = gradient_of[static_cast<std::size_t>(index)];
    if (so_far == none) {
      so_far = term;
      continue;
    }
    GradientSum& sum = call.sums.emplace_back();
    sum.op = ops.add(format, format, ops::Activation::none);
    sum.terms[0] = use(so_far, now);
    sum.terms[1] = term;
    sum.sum = so_far = add_buffer(format.bytes, now);
  }
}

int Program::add_buffer(Bytes bytes, int moment) {
  lifetimes_.push_back({bytes, moment, moment});
  return static_cast<int>(lifetimes_.size()) - 1;
}

int Program::use(int buffer, int moment) {
  Lifetime& lifetime = lifetimes_[static_cast<std::size_t>(buffer)];
  lifetime.last = std::max(lifetime.last, moment);
  return buffer;
}

void* Program::address(int buffer, const Memory& memory) const {
  return buffer == none ? nullptr : memory.arena + plan_.offsets[static_cast<std::size_t>(buffer)].value;
}

void Program::place(const Tensors& tensors, const Memory& memory) {
  for (Call& call : calls_) place(call, tensors, memory);
}

void Program::place(Call& call, const Tensors& tensors, const Memory& memory) const {
  call.output_pointer = address(call.output, memory);
  call.saved_pointer = address(call.saved, memory);
  call.output_gradient_pointer = address(call.output_gradient, memory);
  call.input_pointers.clear();
  for (const int index : call.layer->inputs) {
    const int buffer = index == Network::input ? none : calls_[static_cast<std::size_t>(index)].output;
    call.input_pointers.push_back(address(buffer, memory));
  }
  call.input_gradient_pointers.clear();
  for (const int buffer : call.input_gradients) call.input_gradient_pointers.push_back(address(buffer, memory));
  call.parameter_pointers.clear();
  call.parameter_gradient_pointers.clear();
  for (const int index : call.tensors->parameters) {
    const TensorSlot& slot = tensors.parameters.at(index);
    call.parameter_pointers.push_back(slice(memory.parameters, slot.offset, slot.count).data);
    call.parameter_gradient_pointers.push_back(slice(memory.gradients, slot.offset, slot.count).data);
  }
  call.state_pointers.clear();
  for (const int index : call.tensors->state) {
    const TensorSlot& slot = tensors.state.at(index);
    call.state_pointers.push_back(slice(memory.state, slot.offset, slot.count).data);
  }
  for (GradientSum& sum : call.sums) {
    sum.inputs[0] = address(sum.terms[0], memory);
    sum.inputs[1] = address(sum.terms[1], memory);
    sum.output = address(sum.sum, memory);
  }
}

void Program::feed(const void* images) {
  for (Call& call : calls_) {
    for (std::size_t i = 0; i < call.input_pointers.size(); ++i) {
      if (call.layer->inputs[i] == Network::input) call.input_pointers[i] = images;
    }
  }
}

ops::Loss::Result Program::forward(const void* images, const std::int32_t* labels, bool training, Observer* observer) {
  feed(images);
  for (const Call& call : calls_) {
    timed(observer, call.forward_name, [&] {
      call.op->forward({.inputs = call.input_pointers,
                        .parameters = call.parameter_pointers,
                        .state = call.state_pointers,
                        .output = call.output_pointer,
                        .saved = call.saved_pointer,
                        .training = training});
    });
  }
  const Call& last = calls_.back();
  ops::Loss::Result result;
  timed(observer, "loss", [&] {
    result = loss_->evaluate(last.output_pointer, labels, training ? last.output_gradient_pointer : nullptr);
  });
  return result;
}

void Program::backward(const Call& call) {
  call.op->backward({.inputs = call.input_pointers,
                     .parameters = call.parameter_pointers,
                     .output = call.output_pointer,
                     .output_gradient = call.output_gradient_pointer,
                     .input_gradients = call.input_gradient_pointers,
                     .parameter_gradients = call.parameter_gradient_pointers,
                     .saved = call.saved_pointer});
  for (const GradientSum& sum : call.sums) {
    sum.op->forward({.inputs = sum.inputs, .output = sum.output, .training = false});
  }
}

void Program::backward(GradientSink& sink, Observer* observer) {
  for (std::size_t l = calls_.size(); l-- > 0;) {
    const Call& call = calls_[l];
    timed(observer, call.backward_name, [&] { backward(call); });
    const std::vector<int>& parameters = call.tensors->parameters;
    std::for_each(parameters.rbegin(), parameters.rend(), [&sink](int parameter) { sink.ready(parameter); });
    sink.between_layers();
  }
}

}  // namespace lockstep::nn
