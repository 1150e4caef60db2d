// SPDX-License-Identifier: Apache-2.0
#include "ddp/tensors.hpp"

#include <cstring>
#include <deque>
#include <mutex>

#include "base/borders.hpp"
#include "base/hash.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::ddp {
namespace {

/// Runs the action on the stream of the queue. For the host queue it makes a stream and waits for it.
template <typename Action>
void on_gpu(Queue queue, const Action& action) {
  if (!queue.is_host()) return action(queue);
  Stream stream;
  action(stream.queue());
  stream.synchronize();
}

Error refusal(const std::string& parameter, const std::string& why) {
  return {ErrorCode::invalid_argument, "parameter '" + parameter + "': " + why, {.label = parameter}};
}

std::string elements(Count count) { return std::to_string(count.value) + " elements"; }

bool is_left_empty(const Buffer& gradient) { return gradient.data == nullptr && gradient.count.value == 0; }

void check(const Parameter& parameter, const Parameter& first) {
  const bool has_gradient = !is_left_empty(parameter.gradient);
  for (const Buffer& buffer : {parameter.value, has_gradient ? parameter.gradient : parameter.value}) {
    if (buffer.data == nullptr && buffer.count.value > 0) throw refusal(parameter.name, "a buffer is null");
    if (buffer.dtype == first.value.dtype) continue;
    throw refusal(parameter.name, std::string(name(buffer.dtype)) + " beside " + std::string(name(first.value.dtype)) +
                                      " of '" + first.name +
                                      "': make a DataParallel for each dtype, each with a group of its own");
  }
  if (has_gradient && parameter.value.count != parameter.gradient.count) {
    throw refusal(parameter.name, elements(parameter.value.count) + " of value, " +
                                      std::to_string(parameter.gradient.count.value) + " of gradient");
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

/// Returns the bytes of that many buffers of a layout. @throws Error{invalid_argument}
Bytes bytes_of_places(int places, const Layout& layout, DType dtype) {
  if (!is_valid(dtype)) throw Error(ErrorCode::invalid_argument, no_enumerator("DType", dtype));
  const auto bytes = product(places, bytes_of(layout.count(), dtype).value);
  if (!bytes)
    throw Error(ErrorCode::invalid_argument, std::to_string(places) + " gradient buffers of " +
                                                 std::to_string(layout.count().value) +
                                                 " elements are more than memory can hold");
  return {*bytes};
}

}  // namespace

void copy(const ConstBuffer& from, const Buffer& to, Queue queue) {
  if (from.bytes().value == 0) return;
  if (from.kind != MemoryKind::device && to.kind != MemoryKind::device) {
    std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes().value));
  } else {
    on_gpu(queue, [&](Queue stream) { copy_bytes(to.data, from.data, from.bytes(), stream); });
  }
}

void fill_with_zeros(const Buffer& buffer, Queue queue) {
  if (buffer.bytes().value == 0) return;
  if (buffer.kind == MemoryKind::device) {
    on_gpu(queue, [&](Queue stream) { clear_bytes(buffer.data, buffer.bytes(), stream); });
  } else {
    std::memset(buffer.data, 0, static_cast<std::size_t>(buffer.bytes().value));
  }
}

std::uint64_t fingerprint(const ConstBuffer& buffer) {
  Allocation copied;
  const void* data = buffer.data;
  if (buffer.kind == MemoryKind::device) {
    copied = allocate_host(buffer.bytes());
    copy(buffer, copied.as(buffer.dtype));
    data = copied.data();
  }
  return hash_of({static_cast<const std::byte*>(data), static_cast<std::size_t>(buffer.bytes().value)});
}

Tensors::Tensors(Layout layout, DType dtype, const ProcessGroup& group, int places)
    : layout_(std::move(layout)), dtype_(dtype), program_gradients_(layout_.tensors().size()), places_(places) {
  move_to(group);
}

Tensors::Tensors(std::vector<Parameter> parameters, const ProcessGroup& group)
    : layout_(layout_of(parameters)), dtype_(parameters.front().value.dtype) {
  for (const Parameter& parameter : parameters) {
    program_values_.push_back(parameter.value);
    program_gradients_.push_back(parameter.gradient);
  }
  move_to(group);
}

void Tensors::move_to(const ProcessGroup& group) {
  const Bytes bytes = bytes_of_places(1, layout_, dtype_);
  gradients_ = group.allocate(bytes_of_places(places_, layout_, dtype_));
  if (are_the_programs()) return;
  Allocation values = group.allocate(bytes);
  if (values_.bytes() == bytes) copy(flat(values_), flat(values));
  values_ = std::move(values);
}

void Tensors::keep_gradients_forever() {
  static auto& kept = *std::make_unique<std::deque<Allocation>>().release();
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  kept.push_back(std::move(gradients_));
}

void Tensors::set_places(int places, const ProcessGroup& group) {
  const Bytes bytes = bytes_of_places(places, layout_, dtype_);
  if (bytes > gradients_.bytes()) {
    gradients_ = {};  // frees the old memory before the new one is allocated
    gradients_ = group.allocate(bytes);
  }
  places_ = places;
}

Buffer Tensors::flat(const Allocation& memory) const { return {memory.data(), layout_.count(), dtype_, memory.kind()}; }

Buffer Tensors::part(const Allocation& memory, int index) const {
  return slice(flat(memory), layout_.at(index).offset, layout_.at(index).count);
}

Buffer Tensors::value(int index) const {
  return are_the_programs() ? program_values_.at(static_cast<std::size_t>(index)) : part(values_, index);
}

Buffer Tensors::gradient(int index) const {
  const Buffer& elsewhere = program_gradients_.at(static_cast<std::size_t>(index));
  return elsewhere.data == nullptr ? part(gradients_, index) : elsewhere;
}

void Tensors::move_gradient(int index, const Buffer& gradient) {
  const TensorSlot& slot = layout_.at(index);
  if (gradient.count != slot.count || gradient.dtype != dtype_) {
    throw refusal(slot.name, "its gradient is given as " + elements(gradient.count) + " of " +
                                 std::string(name(gradient.dtype)) + ", where it has " + elements(slot.count) + " of " +
                                 std::string(name(dtype_)));
  }
  if (gradient.data == nullptr && slot.count.value > 0) {
    throw refusal(slot.name, "its gradient is given as a null pointer: a parameter without gradient is not made ready");
  }
  program_gradients_[static_cast<std::size_t>(index)] = is_in_flat_memory(index, gradient) ? Buffer{} : gradient;
}

Buffer Tensors::values() const {
  if (!are_the_programs()) return flat(values_);
  throw Error(ErrorCode::invalid_argument, "the program's own tensors do not lie side by side: ask for each of them");
}

std::vector<Buffer> Tensors::value_buffers() const {
  return are_the_programs() ? program_values_ : std::vector<Buffer>{values()};
}

void Tensors::collect(int index, Queue queue) const {
  const Buffer& elsewhere = program_gradients_[static_cast<std::size_t>(index)];
  if (elsewhere.data != nullptr) copy(elsewhere, part(gradients_, index), queue);
}

Buffer Tensors::own_gradient(int index, int place) const {
  const TensorSlot& slot = layout_.at(index);
  return slice(gradient_places(), {place * layout_.count().value + slot.offset.value}, slot.count);
}

void Tensors::collect_zeros(int index, int sums, Queue queue) const {
  for (int place = 0; place < sums; ++place) fill_with_zeros(own_gradient(index, place), queue);
}

void Tensors::distribute(Queue queue) const {
  for (std::size_t i = 0; i < program_gradients_.size(); ++i) {
    const Buffer& elsewhere = program_gradients_[i];
    if (elsewhere.data != nullptr) copy(part(gradients_, static_cast<int>(i)), elsewhere, queue);
  }
}

}  // namespace lockstep::ddp
