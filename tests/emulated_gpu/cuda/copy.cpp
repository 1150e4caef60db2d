// SPDX-License-Identifier: Apache-2.0
// Copies and fills. They wait for the host as CUDA Runtime API, API synchronization behavior, says; where it says
// "may", the seed decides.
#include <algorithm>
#include <cstring>
#include <optional>

#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/device/faults.hpp"

namespace emulated_gpu {
namespace {

/// Rows of bytes; a region that is not two-dimensional is one row.
struct Region {
  const void* address = nullptr;
  std::size_t pitch = 0;
};

enum class Side { device, pinned, managed, pageable };

Side side_of(const void* address) {
  const Block* block = Memory::instance().find(address);
  if (block == nullptr) return Side::pageable;
  switch (block->type) {
    case MemoryType::device: return Side::device;
    case MemoryType::pinned: return Side::pinned;
    case MemoryType::managed: return Side::managed;
  }
  return Side::pageable;
}

/// Returns the size of the next piece; a row has only a few pieces.
std::size_t row_piece_of(std::size_t bytes, Random& random) {
  return std::max<std::size_t>(1, bytes / (1 + random.below(4)));
}

/// Forbids the host access to pinned memory until it has waited. @return null if it is not pinned
std::shared_ptr<Landing> landing_at(const void* address, std::size_t bytes, const char* what) {
  if (bytes == 0 || side_of(address) != Side::pinned) return nullptr;
  const Block* block = Memory::instance().find(address);
  Memory::instance().forbid(
      address, bytes,
      std::string(what) + " into " + describe(*block, address) + " was queued, and the host has not waited for it");
  auto landing = std::make_shared<Landing>();
  landing->address = address;
  landing->bytes = bytes;
  return landing;
}

class Copy : public Task {
 public:
  Copy(Region to, Region from, std::size_t width, std::size_t height, std::optional<std::vector<std::byte>> staged)
      : to_(to), from_(from), width_(width), height_(height), staged_(std::move(staged)) {
    const std::size_t span = height == 0 ? 0 : (height - 1) * to.pitch + width;
    landing_ = landing_at(to.address, span, "a copy");
  }
  Step step(Random& random) override {
    if (width_ == 0 || height_ == 0) return Step::done;
    const std::size_t bytes = std::min(row_piece_of(width_, random), width_ - column_);
    const std::size_t at = row_ * to_.pitch + column_;
    std::byte* to = Memory::instance().view(static_cast<const std::byte*>(to_.address) + at, bytes, what());
    std::memmove(to, source(bytes), bytes);
    column_ += bytes;
    if (column_ == width_) {
      column_ = 0;
      ++row_;
    }
    return row_ == height_ ? Step::done : Step::moved;
  }
  [[nodiscard]] std::string what() const override { return "a copy of " + std::to_string(width_ * height_) + " bytes"; }
  [[nodiscard]] std::shared_ptr<Landing> landing() const override { return landing_; }

 private:
  const std::byte* source(std::size_t bytes) {
    const std::size_t at = row_ * from_.pitch + column_;
    if (staged_) return staged_->data() + row_ * width_ + column_;
    return Memory::instance().view(static_cast<const std::byte*>(from_.address) + at, bytes, what());
  }

  Region to_;
  Region from_;
  std::size_t width_;
  std::size_t height_;
  std::optional<std::vector<std::byte>> staged_;
  std::shared_ptr<Landing> landing_;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

class Fill : public Task {
 public:
  Fill(void* address, int value, std::size_t bytes)
      : address_(static_cast<std::byte*>(address)), value_(value), bytes_(bytes) {
    landing_ = landing_at(address, bytes, "a fill");
  }
  Step step(Random& random) override {
    if (bytes_ == 0) return Step::done;
    const std::size_t bytes = std::min(row_piece_of(bytes_, random), bytes_ - done_);
    std::memset(Memory::instance().view(address_ + done_, bytes, what()), value_, bytes);
    done_ += bytes;
    return done_ == bytes_ ? Step::done : Step::moved;
  }
  [[nodiscard]] std::string what() const override { return "a fill of " + std::to_string(bytes_) + " bytes"; }
  [[nodiscard]] std::shared_ptr<Landing> landing() const override { return landing_; }

 private:
  std::byte* address_;
  int value_;
  std::size_t bytes_;
  std::size_t done_ = 0;
  std::shared_ptr<Landing> landing_;
};

/// Returns whether the kind matches both sides.
bool fits(cudaMemcpyKind kind, Side to, Side from) {
  const auto host = [](Side side) { return side != Side::device; };
  const auto device = [](Side side) { return side == Side::device || side == Side::managed || side == Side::pinned; };
  switch (kind) {
    case cudaMemcpyHostToHost: return host(to) && host(from);
    case cudaMemcpyHostToDevice: return device(to) && host(from);
    case cudaMemcpyDeviceToHost: return host(to) && device(from);
    case cudaMemcpyDeviceToDevice: return device(to) && device(from);
    case cudaMemcpyDefault: return true;
  }
  return false;
}

std::vector<std::byte> rows_of(Region from, std::size_t width, std::size_t height) {
  std::vector<std::byte> rows(width * height);
  for (std::size_t row = 0; row < height; ++row)
    std::memcpy(rows.data() + row * width, static_cast<const std::byte*>(from.address) + row * from.pitch, width);
  return rows;
}

/// Copies asynchronously if it may. Pageable memory is read at once, later, or while the host waits; it is written
/// later or while the host waits.
cudaError_t copy_async(Call& call, Region to, Region from, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                       cudaStream_t handle) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const Side to_side = side_of(to.address);
  const Side from_side = side_of(from.address);
  if (static_cast<unsigned>(kind) > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (!fits(kind, to_side, from_side) || to.pitch < width || from.pitch < width) return cudaErrorInvalidValue;
  if (width == 0 || height == 0) return cudaSuccess;
  enum class Manner { at_once, later, waiting } manner = Manner::later;
  const bool is_pageable = to_side == Side::pageable || from_side == Side::pageable;
  if (is_pageable) record_call("a copy of pageable memory");
  if (is_pageable && !stream->capture) manner = static_cast<Manner>(Engine::instance().random().below(3));
  std::optional<std::vector<std::byte>> staged;
  if (manner == Manner::at_once && from_side == Side::pageable) staged = rows_of(from, width, height);
  const auto recipe = [=] { return std::make_unique<Copy>(to, from, width, height, staged); };
  const cudaError_t error = put(*stream, cudaGraphNodeTypeMemcpy, recipe);
  const auto is_hosts = [](Side side) { return side == Side::pageable || side == Side::pinned; };
  const bool waits = manner == Manner::waiting || (is_hosts(to_side) && is_hosts(from_side));
  return error == cudaSuccess && waits && !stream->capture ? call.wait_for(stream->tail, stream->gpu) : error;
}

/// Copies in the legacy stream, and waits unless both sides are on the device.
cudaError_t copy_now(Call& call, Region to, Region from, std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  const cudaError_t error = copy_async(call, to, from, width, height, kind, cudaStreamLegacy);
  const bool on_device = side_of(to.address) == Side::device && side_of(from.address) == Side::device;
  if (error != cudaSuccess || on_device) return error;
  return call.wait_for(state_of(current_gpu()).legacy.tail, current_gpu());
}

cudaError_t fill_async(void* address, int value, std::size_t bytes, cudaStream_t handle) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  if (side_of(address) == Side::pageable) return cudaErrorInvalidValue;
  return put(*stream, cudaGraphNodeTypeMemset, [=] { return std::make_unique<Fill>(address, value, bytes); });
}

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  EMULATED_GPU_CALL("cudaMemcpy", Call::Capturing::refused);
  return Call::result(copy_now(call, {to, bytes}, {from, bytes}, bytes, 1, kind));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  EMULATED_GPU_CALL("cudaMemcpyAsync");
  return Call::result(copy_async(call, {to, bytes}, {from, bytes}, bytes, 1, kind, stream));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int /*to_gpu*/, const void* from, int /*from_gpu*/, size_t bytes,
                                cudaStream_t stream) {
  EMULATED_GPU_CALL("cudaMemcpyPeerAsync");
  return Call::result(copy_async(call, {to, bytes}, {from, bytes}, bytes, 1, cudaMemcpyDefault, stream));
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  EMULATED_GPU_CALL("cudaMemcpy2D", Call::Capturing::refused);
  return Call::result(copy_now(call, {to, to_pitch}, {from, from_pitch}, width, height, kind));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  EMULATED_GPU_CALL("cudaMemcpy2DAsync");
  return Call::result(copy_async(call, {to, to_pitch}, {from, from_pitch}, width, height, kind, stream));
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  EMULATED_GPU_CALL("cudaMemset", Call::Capturing::refused);
  const cudaError_t error = fill_async(address, value, bytes, cudaStreamLegacy);
  if (error != cudaSuccess || side_of(address) == Side::device) return Call::result(error);
  return Call::result(call.wait_for(state_of(current_gpu()).legacy.tail, current_gpu()));
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  EMULATED_GPU_CALL("cudaMemsetAsync");
  return Call::result(fill_async(address, value, bytes, stream));
}

}  // extern "C"
