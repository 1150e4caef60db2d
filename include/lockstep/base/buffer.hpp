// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// The type of elements: IEEE 754 and two's complement, in the machine's byte order. bfloat16 is the upper half of a
/// float32. A boolean is a byte, 0 or 1. complex64 and complex128 are pairs of float32 and float64: the real part, then
/// the imaginary part.
enum class DType {
  float32,
  float64,
  int32,
  int64,
  uint8,
  float16,
  bfloat16,
  int8,
  int16,
  uint16,
  boolean,
  complex64,
  complex128,
};
/// The operation that combines operands. An average is the sum divided by the number of ranks, once, when the sum is
/// complete; so all ranks get the same bits. Integers wrap when they are added, and their average is divided as C++
/// divides. The 16-bit formats are divided in float32 and rounded once. Complex numbers have sums and averages only.
///
/// Logical and bitwise operators are for integers and booleans. A logical operator takes every number but 0 as true,
/// and gives 0 or 1; a single operand is copied. The sum and the maximum of booleans are `logical_or`, their product
/// and their minimum are `logical_and`, and they have no average.
enum class ReduceOp {
  sum,
  min,
  max,
  product,
  average,
  logical_and,
  logical_or,
  logical_xor,
  bit_and,
  bit_or,
  bit_xor,
};
/// The operator that combines two operands while a reduction is under way.
constexpr ReduceOp combining(ReduceOp op) { return op == ReduceOp::average ? ReduceOp::sum : op; }

/// The kinds of memory: ordinary memory of the process, memory that the ranks of a node share, page-locked host memory,
/// and memory of a GPU.
enum class MemoryKind { host, shared, pinned, device };

/// Bytes per element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::int8:
    case DType::uint8: return 1;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
    case DType::uint16: return 2;
    case DType::float32:
    case DType::int32: return 4;
    case DType::float64:
    case DType::int64:
    case DType::complex64: return 8;
    case DType::complex128: return 16;
  }
  return 0;
}

constexpr bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }
constexpr bool is_integer(DType dtype) {
  return dtype == DType::int32 || dtype == DType::int64 || dtype == DType::uint8 || dtype == DType::int8 ||
         dtype == DType::int16 || dtype == DType::uint16;
}
constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::bit_and || op == ReduceOp::bit_or || op == ReduceOp::bit_xor;
}
constexpr bool is_logical(ReduceOp op) {
  return op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor;
}

/// The bytes of that many elements.
constexpr Bytes bytes_of(Count count, DType dtype) { return size_of(dtype) * Bytes{count.value}; }
/// The C++ types of elements. The standard library's 16-bit types of C++23 are elements too, where it has them.
template <typename T>
concept Element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
                  (std::signed_integral<T> && sizeof(T) == sizeof(std::int64_t)) ||
                  std::same_as<T, std::uint8_t> || is_half<T> || std::same_as<T, std::int8_t> ||
                  std::same_as<T, std::int16_t> || std::same_as<T, std::uint16_t> || std::same_as<T, bool> ||
                  std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;
/// The dtype of such a type.
template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, float>) return DType::float32;
  if constexpr (std::same_as<T, double>) return DType::float64;
  if constexpr (std::same_as<T, std::int8_t>) return DType::int8;
  if constexpr (std::same_as<T, std::int16_t>) return DType::int16;
  if constexpr (std::same_as<T, std::uint16_t>) return DType::uint16;
  if constexpr (std::same_as<T, bool>) return DType::boolean;
  if constexpr (std::same_as<T, std::complex<float>>) return DType::complex64;
  if constexpr (std::same_as<T, std::complex<double>>) return DType::complex128;
  if constexpr (std::same_as<T, std::int32_t>) return DType::int32;
  if constexpr (std::signed_integral<T>) return DType::int64;  // long and long long may both have 64 bits
  if constexpr (std::same_as<T, std::uint8_t>) return DType::uint8;
  return std::same_as<T, float16> || is_std_float16<T> ? DType::float16 : DType::bfloat16;
}
template <typename T>
requires(!Element<T>) constexpr DType dtype_of() = delete;  // Use a number that has a dtype: see the enum DType.

/// The type of the elements of a contiguous range, const if they may not be written.
template <typename R>
using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>;
/// Contiguous ranges of elements that outlive the expression they are in: lvalues of std::vector, std::array and C
/// arrays, and views such as std::span.
template <typename R>
concept ElementRange = Element<std::remove_const_t<ElementOf<R>>> && requires(R& range) {
  std::size(range);
} &&(std::is_lvalue_reference_v<R> || std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>);

/// What cannot become a buffer, by the reason. The deleted constructors below have one of these, and compilers show
/// their line, which says what to do.
namespace no_buffer {

template <typename R>
concept Scalar = std::is_arithmetic_v<std::remove_cvref_t<R>> || is_half<std::remove_cvref_t<R>>;
template <typename R>
concept Contiguous = requires(R& range) {
  std::data(range);
  std::size(range);
};
/// What a scalar or a contiguous range consists of, const if it may not be written.
template <typename R>
struct Held {};
template <Scalar R>
struct Held<R> : std::type_identity<std::remove_reference_t<R>> {};
template <Contiguous R>
struct Held<R> : std::type_identity<ElementOf<R>> {};
template <typename R>
using HeldBy = typename Held<R>::type;
template <typename R>
concept OfElements = Element<std::remove_const_t<HeldBy<R>>>;

template <typename R>
concept Scattered = !Contiguous<R> && requires(R & range) {
  std::begin(range);
  std::end(range);
};
template <typename R>
concept WithoutDType = (Scalar<R> || Contiguous<R>)&&!OfElements<R>;
template <typename R>
concept Temporary =
    OfElements<R> && !std::is_lvalue_reference_v<R> && !std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>;
template <typename R>
concept ReadOnly = OfElements<R> && !Temporary<R> && std::is_const_v<HeldBy<R>>;
template <typename R>
concept Pointer = std::is_pointer_v<std::remove_cvref_t<R>>;

}  // namespace no_buffer

std::string_view name(DType dtype);
std::string_view name(ReduceOp op);
std::string_view name(MemoryKind kind);

/// A view of `count` elements, which it does not own. A range of elements, such as a std::vector<float> or a
/// std::span<double>, and a single element convert to it.
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
  /// A view of the elements of a range, which may be written.
  template <ElementRange R>
  requires Element<ElementOf<R>>
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): a Buffer is no range
  constexpr Buffer(R&& elements)
      : Buffer(std::data(elements), {static_cast<std::int64_t>(std::size(elements))},
               dtype_of<std::remove_const_t<ElementOf<R>>>()) {}
  /// A view of one variable.
  template <Element T>
  // NOLINTNEXTLINE(google-explicit-constructor): one element is a range of one
  constexpr Buffer(T& element) : Buffer(&element, {1}, dtype_of<T>()) {}
  // NOLINTBEGIN(google-explicit-constructor,bugprone-forwarding-reference-overload): compilers show these lines
  template <no_buffer::Scattered R>
  Buffer(R&&) = delete;  // Copy it into an array or a std::vector, but not of bool: elements must be side by side.
  template <no_buffer::WithoutDType R>
  Buffer(R&&) = delete;  // Use elements that have a dtype, such as float or std::int32_t: see the enum DType.
  template <no_buffer::Temporary R>
  Buffer(R&&) = delete;  // Keep it in a variable first: a buffer does not own its elements.
  template <no_buffer::Pointer R>
  Buffer(R&&) = delete;  // Say how many elements there are: Buffer{pointer, {count}, dtype}.
  template <no_buffer::ReadOnly R>
  Buffer(R&&) = delete;  // Pass elements that may be written: these are const.
  // NOLINTEND(google-explicit-constructor,bugprone-forwarding-reference-overload)

  [[nodiscard]] Bytes bytes() const { return bytes_of(count, dtype); }
};

/// A view of elements that are only read. Every Buffer converts to one, and so do ranges and variables that are const.
struct ConstBuffer {
  const void* data = nullptr;
  Count count;
  DType dtype = DType::float32;
  MemoryKind kind = MemoryKind::host;

  ConstBuffer() = default;
  /// A view of `count_in` elements of a dtype.
  ConstBuffer(const void* data_in, Count count_in, DType dtype_in, MemoryKind kind_in = MemoryKind::host)
      : data(data_in), count(count_in), dtype(dtype_in), kind(kind_in) {}
  /// A view of the same elements.
  // NOLINTNEXTLINE(google-explicit-constructor): a view that may be written is one that may be read
  ConstBuffer(const Buffer& b) : data(b.data), count(b.count), dtype(b.dtype), kind(b.kind) {}
  /// A view of the elements of a range.
  template <ElementRange R>
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): as Buffer's
  ConstBuffer(R&& elements)
      : ConstBuffer(std::data(elements), {static_cast<std::int64_t>(std::size(elements))},
                    dtype_of<std::remove_const_t<ElementOf<R>>>()) {}
  /// A view of one variable. A temporary value does not convert: it would be gone before the operation reads it.
  template <typename T>
  requires Element<std::remove_const_t<T>>
  // NOLINTNEXTLINE(google-explicit-constructor): as Buffer's
  ConstBuffer(T& element) : ConstBuffer(&element, {1}, dtype_of<std::remove_const_t<T>>()) {}
  // NOLINTBEGIN(google-explicit-constructor,bugprone-forwarding-reference-overload): compilers show these lines
  template <no_buffer::Scattered R>
  ConstBuffer(R&&) = delete;  // Copy it into an array or a std::vector, but not of bool: elements must be side by side.
  template <no_buffer::WithoutDType R>
  ConstBuffer(R&&) = delete;  // Use elements that have a dtype, such as float or std::int32_t: see the enum DType.
  template <no_buffer::Temporary R>
  ConstBuffer(R&&) = delete;  // Keep it in a variable first: a buffer does not own its elements.
  template <no_buffer::Pointer R>
  ConstBuffer(R&&) = delete;  // Say how many elements there are: ConstBuffer{pointer, {count}, dtype}.
  // NOLINTEND(google-explicit-constructor,bugprone-forwarding-reference-overload)

  [[nodiscard]] Bytes bytes() const { return bytes_of(count, dtype); }
};

/// A view of `count` elements from element `offset` on. @pre the range lies inside `whole`
Buffer slice(const Buffer& whole, Count offset, Count count);
ConstBuffer slice(const ConstBuffer& whole, Count offset, Count count);
/// Returns the same slice of a range. It may be written if the elements of the range may be.
template <ElementRange R>
auto slice(R&& whole, Count offset, Count count) {
  return slice(std::conditional_t<std::is_const_v<ElementOf<R>>, ConstBuffer, Buffer>(whole), offset, count);
}

/// Memory that this object owns and releases at its end. Move-only.
class Allocation {
 public:
  using Release = std::function<void(void*)>;

  Allocation() = default;
  /// Takes over memory, which is given to `release` at the end.
  Allocation(void* data, Bytes bytes, MemoryKind kind, Release release);
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  /// A view of the memory as elements of `dtype`, as many as fit.
  [[nodiscard]] Buffer as(DType dtype) const;

 private:
  void* data_ = nullptr;
  Bytes bytes_;
  MemoryKind kind_ = MemoryKind::host;
  Release release_;
};

/// Allocates zeroed memory of the host, aligned to 64 bytes (a cache line, and a vector of AVX-512).
/// @throws Error{invalid_argument} if `bytes` is negative; std::bad_alloc
Allocation allocate_host(Bytes bytes);

}  // namespace lockstep
