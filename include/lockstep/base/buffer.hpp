// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// What elements are: IEEE 754 and two's complement, in the machine's byte order; bfloat16 is a float32 without its
/// lower half.
enum class DType { float32, float64, int32, int64, uint8, float16, bfloat16 };
/// How operands are combined. An average is the sum, divided by the number of ranks when it is complete: the same bits
/// on all ranks. Integers are divided as C++ does, after their sum has wrapped as sums do; 16-bit formats in float32,
/// with one rounding.
enum class ReduceOp { sum, min, max, product, average };
/// The operator that combines two operands on the way.
constexpr ReduceOp combining(ReduceOp op) { return op == ReduceOp::average ? ReduceOp::sum : op; }

/// Where memory lives: ordinary process memory, memory that the node's ranks share,
/// page-locked host memory, or a GPU's.
enum class MemoryKind { host, shared, pinned, device };

/// Bytes per element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::int32: return 4;
    case DType::float64:
    case DType::int64: return 8;
    case DType::uint8: return 1;
    case DType::float16:
    case DType::bfloat16: return 2;
  }
  return 0;
}
/// The C++ types of elements; the 16-bit formats have none.
template <typename T>
concept Element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint8_t>;
/// The dtype of such a type.
template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, float>) return DType::float32;
  if constexpr (std::same_as<T, double>) return DType::float64;
  if constexpr (std::same_as<T, std::int32_t>) return DType::int32;
  if constexpr (std::same_as<T, std::int64_t>) return DType::int64;
  return DType::uint8;
}

std::string_view name(DType dtype);
std::string_view name(ReduceOp op);
std::string_view name(MemoryKind kind);

/// A view of `count` elements that somebody else owns. Every std::span of elements converts to one.
struct Buffer {
  void* data = nullptr;
  Count count;
  DType dtype = DType::float32;
  MemoryKind kind = MemoryKind::host;

  constexpr Buffer() = default;
  /// A view of `count_in` elements of a dtype.
  constexpr Buffer(void* data_in, Count count_in, DType dtype_in = DType::float32,
                   MemoryKind kind_in = MemoryKind::host)
      : data(data_in), count(count_in), dtype(dtype_in), kind(kind_in) {}
  /// The same elements.
  template <Element T>
  // NOLINTNEXTLINE(google-explicit-constructor): a span is a view of elements, too
  constexpr Buffer(std::span<T> elements)
      : Buffer(elements.data(), {static_cast<std::int64_t>(elements.size())}, dtype_of<T>()) {}

  [[nodiscard]] Bytes bytes() const { return {count.value * size_of(dtype)}; }
};

/// A view that is only read. Every Buffer converts to one.
struct ConstBuffer {
  const void* data = nullptr;
  Count count;
  DType dtype = DType::float32;
  MemoryKind kind = MemoryKind::host;

  ConstBuffer() = default;
  /// A view of `count_in` elements, as `Buffer` is.
  ConstBuffer(const void* data_in, Count count_in, DType dtype_in, MemoryKind kind_in = MemoryKind::host)
      : data(data_in), count(count_in), dtype(dtype_in), kind(kind_in) {}
  /// The same elements, to be read only.
  // NOLINTNEXTLINE(google-explicit-constructor): a view that may be written is one that may be read
  ConstBuffer(const Buffer& b) : data(b.data), count(b.count), dtype(b.dtype), kind(b.kind) {}

  /// The same elements, to be read only.
  template <typename T>
  requires Element<std::remove_const_t<T>>
  // NOLINTNEXTLINE(google-explicit-constructor): as Buffer's
  ConstBuffer(std::span<T> elements)
      : ConstBuffer(elements.data(), {static_cast<std::int64_t>(elements.size())}, dtype_of<std::remove_const_t<T>>()) {
  }

  [[nodiscard]] Bytes bytes() const { return {count.value * size_of(dtype)}; }
};

/// `count` elements from element `offset` on. @pre the range lies inside `whole`
Buffer slice(const Buffer& whole, Count offset, Count count);
ConstBuffer slice(const ConstBuffer& whole, Count offset, Count count);

/// Owned memory; the view is released with it. Move-only.
class Allocation {
 public:
  using Release = std::function<void(void*)>;

  Allocation() = default;
  /// Takes over memory that `release` will be given at the end.
  Allocation(void* data, Bytes bytes, MemoryKind kind, Release release);
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  /// The memory seen as elements of `dtype`, as many as fit.
  [[nodiscard]] Buffer as(DType dtype) const;

 private:
  void* data_ = nullptr;
  Bytes bytes_;
  MemoryKind kind_ = MemoryKind::host;
  Release release_;
};

/// Zeroed host memory, aligned to 64 bytes (a cache line and an AVX-512 vector).
/// @throws Error{invalid_argument} if `bytes` is negative; std::bad_alloc
Allocation allocate_host(Bytes bytes);

}  // namespace lockstep
