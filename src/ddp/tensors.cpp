// SPDX-License-Identifier: Apache-2.0
#include "ddp/tensors.hpp"

#include <cstddef>
#include <utility>

#include "ddp/memory.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ddp {
namespace {

void check(const Parameter& parameter, const Parameter& first) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "parameter '" + parameter.name + "': " + why, {.label = parameter.name});
  };
  const auto count = [](const Buffer& buffer) { return std::to_string(buffer.count.value); };
  for (const Buffer& buffer : {parameter.value, parameter.gradient}) {
    if (buffer.data == nullptr && buffer.count.value > 0) refuse("a buffer is null");
    if (buffer.dtype != first.value.dtype) {
      refuse(std::string(name(buffer.dtype)) + " beside " + std::string(name(first.value.dtype)) + " of '" +
             first.name + "': make a DataParallel for each dtype, each with a group of its own");
    }
  }
  if (parameter.value.count != parameter.gradient.count) {
    refuse(count(parameter.value) + " elements of value, " + count(parameter.gradient) + " of gradient");
  }
}

Layout layout_of(const std::vector<Parameter>& parameters) {
  if (parameters.empty()) throw Error(ErrorCode::invalid_argument, "a DataParallel of no parameters: give it some");
  Layout layout;
  for (const Parameter& parameter : parameters) {
    check(parameter, parameters.front());
    layout.add(parameter.name, {parameter.value.count.value});
  }
  return layout;
}

}  // namespace

Tensors::Tensors(Layout layout, DType dtype, const ProcessGroup& group, int places)
    : layout_(std::move(layout)), dtype_(dtype), places_(places) {
  move_to(group);
}

Tensors::Tensors(std::vector<Parameter> parameters, const ProcessGroup& group)
    : layout_(layout_of(parameters)), dtype_(parameters.front().value.dtype), parameters_(std::move(parameters)) {
  move_to(group);
}

void Tensors::move_to(const ProcessGroup& group) {
  const Bytes bytes{layout_.count().value * size_of(dtype_)};
  gradients_ = group.allocate({places_ * bytes.value});
  if (are_the_programs()) return;
  Allocation values = group.allocate(bytes);
  if (values_.bytes() == bytes) copy(flat(values_), flat(values));
  values_ = std::move(values);
}

Buffer Tensors::flat(const Allocation& memory) const { return {memory.data(), layout_.count(), dtype_, memory.kind()}; }

Buffer Tensors::part(const Allocation& memory, int index) const {
  return slice(flat(memory), layout_.at(index).offset, layout_.at(index).count);
}

Buffer Tensors::value(int index) const {
  return are_the_programs() ? parameters_.at(static_cast<std::size_t>(index)).value : part(values_, index);
}

Buffer Tensors::gradient(int index) const {
  return are_the_programs() ? parameters_.at(static_cast<std::size_t>(index)).gradient : part(gradients_, index);
}

Buffer Tensors::values() const {
  if (!are_the_programs()) return flat(values_);
  throw Error(ErrorCode::invalid_argument, "the program's own tensors do not lie side by side: ask for each of them");
}

std::vector<Buffer> Tensors::value_buffers() const {
  if (!are_the_programs()) return {values()};
  std::vector<Buffer> all;
  for (const Parameter& parameter : parameters_) all.push_back(parameter.value);
  return all;
}

void Tensors::collect(int index, Queue queue) const {
  if (are_the_programs()) copy(gradient(index), part(gradients_, index), queue);
}

Buffer Tensors::gradient(int index, int place) const {
  if (place == 0) return gradient(index);
  const TensorSlot& slot = layout_.at(index);
  return slice(gradient_places(), {place * layout_.count().value + slot.offset.value}, slot.count);
}

void Tensors::collect_zeros(int index, int sums, Queue queue) const {
  fill_with_zeros(part(gradients_, index), queue);
  for (int place = 1; place < sums; ++place) fill_with_zeros(gradient(index, place), queue);
}

void Tensors::distribute(Queue queue) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    copy(part(gradients_, static_cast<int>(i)), parameters_[i].gradient, queue);
}

}  // namespace lockstep::ddp
