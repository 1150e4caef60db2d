// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/buffer.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <string>

#include "base/borders.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {

Buffer slice(const Buffer& whole, Count offset, Count count) {
  auto* base = static_cast<std::byte*>(whole.data);
  return {base == nullptr ? nullptr : base + offset.value * size_of(whole.dtype), count, whole.dtype, whole.kind};
}

ConstBuffer slice(const ConstBuffer& whole, Count offset, Count count) {
  const auto* base = static_cast<const std::byte*>(whole.data);
  return {base == nullptr ? nullptr : base + offset.value * size_of(whole.dtype), count, whole.dtype, whole.kind};
}

Allocation::Allocation(void* data, Bytes bytes, MemoryKind kind, Release release)
    : data_(data), bytes_(bytes), kind_(kind), release_(std::move(release)) {}

Allocation::Allocation(Allocation&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, {})),
      kind_(other.kind_),
      release_(std::move(other.release_)) {}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(kind_, other.kind_);
  std::swap(release_, other.release_);
  return *this;
}

Allocation::~Allocation() {
  if (data_ != nullptr && release_) release_(data_);
}

Buffer Allocation::as(DType dtype) const {
  if (!is_valid(dtype)) throw Error(ErrorCode::invalid_argument, no_enumerator("DType", dtype));
  return {data_, {bytes_.value / size_of(dtype)}, dtype, kind_};
}

Allocation allocate_host(Bytes bytes) {
  constexpr std::int64_t alignment = 64;
  if (bytes < 0) {
    throw Error(ErrorCode::invalid_argument, "cannot allocate " + std::to_string(bytes.value) + " bytes");
  }
  if (bytes == 0) return {};
  if (bytes > std::numeric_limits<std::int64_t>::max() - alignment) throw std::bad_alloc();
  const auto rounded = static_cast<std::size_t>((bytes.value + alignment - 1) / alignment * alignment);
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return {data, bytes, MemoryKind::host, [](void* p) { std::free(p); }};
}

}  // namespace lockstep
