// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/buffer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep {
namespace {

TEST(Buffer, IsMadeOfASpanOfElements) {
  std::int64_t numbers[] = {1, 2, 3};
  const Buffer all = std::span<std::int64_t>(numbers);
  EXPECT_EQ(all.data, numbers);
  EXPECT_EQ(all.count, Count{3});
  EXPECT_EQ(all.dtype, DType::int64);
  static_assert(dtype_of<long long>() == DType::int64);  // NOLINT(google-runtime-int): it may be another type
  const ConstBuffer read = std::span<const std::int64_t>(numbers).first(2);
  EXPECT_EQ(read.count, Count{2});
  EXPECT_EQ(read.dtype, DType::int64);
  static_assert(!std::is_convertible_v<std::span<const float>, Buffer>, "what may not be written");
  static_assert(!std::is_convertible_v<std::span<char>, Buffer>, "no element's type");
}

TEST(Buffer, IsMadeOfAnyContiguousRangeThatStays) {
  std::vector<float> list(5);
  std::array<std::uint8_t, 3> bytes{};
  bfloat16 halves[2];
  const Buffer of_list = list;
  EXPECT_EQ(of_list.data, list.data());
  EXPECT_EQ(of_list.count, Count{5});
  EXPECT_EQ(of_list.dtype, DType::float32);
  EXPECT_EQ(Buffer(bytes).bytes(), Bytes{3});
  EXPECT_EQ(Buffer(halves).dtype, DType::bfloat16);
  EXPECT_EQ(Buffer(halves).count, Count{2});
  const std::vector<float16> fixed(7);
  const ConstBuffer of_fixed = fixed;
  EXPECT_EQ(of_fixed.data, fixed.data());
  EXPECT_EQ(of_fixed.bytes(), Bytes{14});
  EXPECT_EQ(of_fixed.dtype, DType::float16);
  static_assert(!std::is_convertible_v<std::vector<float>, Buffer>, "it would be gone");
  static_assert(!std::is_convertible_v<std::vector<float>, ConstBuffer>, "it would be gone");
  static_assert(!std::is_convertible_v<const std::vector<float>&, Buffer>, "what may not be written");
  static_assert(!std::is_convertible_v<std::vector<bool>&, Buffer>, "not one behind the other");
  static_assert(!std::is_convertible_v<std::list<float>&, Buffer>, "not one behind the other");
}

TEST(Buffer, IsMadeOfOneVariable) {
  double number = 3;
  const Buffer one = number;
  EXPECT_EQ(one.data, &number);
  EXPECT_EQ(one.count, Count{1});
  EXPECT_EQ(one.dtype, DType::float64);
  const std::int32_t fixed = 4;
  const ConstBuffer read = fixed;
  EXPECT_EQ(read.data, &fixed);
  EXPECT_EQ(read.dtype, DType::int32);
  static_assert(!std::is_convertible_v<double, Buffer> && !std::is_convertible_v<double, ConstBuffer>, "it is gone");
  static_assert(!std::is_convertible_v<const double&, Buffer>, "what may not be written");
  static_assert(!std::is_convertible_v<unsigned&, Buffer> && !std::is_convertible_v<char&, Buffer>,
                "no element's type");
  static_assert(!std::is_convertible_v<float*&, Buffer>, "of how many elements?");
}

TEST(Buffer, HasTheTypeOfItsElements) {
  static_assert(dtype_of<std::int8_t>() == DType::int8 && dtype_of<std::int16_t>() == DType::int16);
  static_assert(dtype_of<std::uint16_t>() == DType::uint16 && dtype_of<bool>() == DType::boolean);
  static_assert(dtype_of<long>() == DType::int64 && dtype_of<long long>() == DType::int64);
  std::complex<double> pairs[3];
  const Buffer complex(pairs);
  EXPECT_EQ(complex.dtype, DType::complex128);
  EXPECT_EQ(complex.count, Count{3});
  EXPECT_EQ(complex.bytes(), Bytes{48});
}

TEST(Rank, ComparesWithIntegersAndConvertsFromAndToThem) {
  constexpr Rank rank{3};
  constexpr Rank next = (rank + 1) % 4;
  static_assert(next == 0 && std::array{7, 8, 9, 10}[rank] == 10);
  static_assert(rank == 3 && 3 == rank && rank != 2L && rank < std::size_t{4} && -1 < rank && rank >= 3U);
  static_assert(rank == Rank{3} && rank < Rank{4});
  static_assert(Rank{-1} < 0U, "by value, whatever the signs of the types are");
}

template <typename A, typename B>
concept add_up = requires(A a, B b) {
  a + b;
};
template <typename A, typename B>
concept compare = requires(A a, B b) {
  a < b;
};

TEST(Quantity, HasArithmeticOfItsOwnUnit) {
  static_assert(Count{7} + Count{5} - Count{2} == 10);
  static_assert(3 * Bytes{4} == Bytes{4} * 3L && Bytes{14} / 4 == 3);
  static_assert(Count{-1} < 0U && Bytes{5} > 4, "by value, whatever the signs of the types are");
  static_assert(bytes_of({3}, DType::float64) == Bytes{24});
  Count sum;
  for (const std::int64_t count : {1, 2, 3}) sum += Count{count};
  EXPECT_EQ(sum, 6);
  static_assert(add_up<Count, Count> && !add_up<Count, Bytes> && !add_up<Count, int>);
  static_assert(compare<Bytes, Bytes> && !compare<Count, Bytes> && !compare<Rank, Count>);
}

TEST(Allocation, HostMemoryIsZeroedAndAligned) {
  const Allocation memory = allocate_host({100});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
  const Buffer bytes = memory.as(DType::uint8);
  ASSERT_EQ(bytes.count, Count{100});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(static_cast<const std::uint8_t*>(bytes.data)[i], 0);
  EXPECT_EQ(memory.as(DType::float64).count, Count{12});
}

TEST(Allocation, MovingHandsOverTheMemoryAndReleasesItOnce) {
  int released = 0;
  {
    int thing = 0;
    Allocation first(&thing, {4}, MemoryKind::host, [&released](void*) { ++released; });
    Allocation second = std::move(first);
    EXPECT_EQ(second.data(), &thing);
    Allocation third;
    third = std::move(second);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(Allocation, RefusesANegativeSize) {
  EXPECT_EQ(code_of([&] { (void)allocate_host({-1}); }), ErrorCode::invalid_argument);
}

TEST(Allocation, OfMoreThanCanBeCountedFails) {
  EXPECT_THROW((void)allocate_host({std::numeric_limits<std::int64_t>::max()}), std::bad_alloc);
}

TEST(Allocation, RefusesADTypeThatIsNone) {
  EXPECT_EQ(code_of([&] { (void)allocate_host({8}).as(static_cast<DType>(42)); }), ErrorCode::invalid_argument);
}

TEST(Buffer, SliceCountsInElements) {
  double values[4] = {1, 2, 3, 4};
  const Buffer whole{values, {4}, DType::float64};
  const Buffer part = slice(whole, {1}, {2});
  EXPECT_EQ(part.data, values + 1);
  EXPECT_EQ(part.bytes(), Bytes{16});
}

}  // namespace
}  // namespace lockstep
