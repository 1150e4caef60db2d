// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/buffer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

TEST(Buffer, IsMadeOfASpanOfElements) {
  std::int64_t numbers[] = {1, 2, 3};
  const Buffer all = std::span<std::int64_t>(numbers);
  EXPECT_EQ(all.data, numbers);
  EXPECT_EQ(all.count, Count{3});
  EXPECT_EQ(all.dtype, DType::int64);
  const ConstBuffer read = std::span<const std::int64_t>(numbers).first(2);
  EXPECT_EQ(read.count, Count{2});
  EXPECT_EQ(read.dtype, DType::int64);
  static_assert(!std::is_convertible_v<std::span<const float>, Buffer>, "what may not be written");
  static_assert(!std::is_convertible_v<std::span<char>, Buffer>, "no element's type");
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

TEST(Allocation, RefusesANegativeSize) { EXPECT_THROW((void)allocate_host({-1}), Error); }

TEST(Buffer, SliceCountsInElements) {
  double values[4] = {1, 2, 3, 4};
  const Buffer whole{values, {4}, DType::float64};
  const Buffer part = slice(whole, {1}, {2});
  EXPECT_EQ(part.data, values + 1);
  EXPECT_EQ(part.bytes(), Bytes{16});
}

}  // namespace
}  // namespace lockstep
