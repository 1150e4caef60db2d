// SPDX-License-Identifier: Apache-2.0
#include "kernels/finite.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep::kernels {
namespace {

constexpr std::array types{DType::float32, DType::float64, DType::float16, DType::bfloat16};

/// The bits of special elements of a type: infinity, a quiet NaN, a NaN with only the payload's lowest bit, the largest
/// finite number, and the sign.
struct Extremes {
  std::uint64_t infinite;
  std::uint64_t quiet;
  std::uint64_t signaling;
  std::uint64_t largest;
  std::uint64_t sign;
};

Extremes extremes(DType dtype) {
  switch (dtype) {
    case DType::float32: return {0x7F800000, 0x7FC00000, 0x7F800001, 0x7F7FFFFF, 0x80000000};
    case DType::float64:
      return {0x7FF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001, 0x7FEFFFFFFFFFFFFF, 0x8000000000000000};
    case DType::float16: return {0x7C00, 0x7E00, 0x7C01, 0x7BFF, 0x8000};
    default: return {0x7F80, 0x7FC0, 0x7F81, 0x7F7F, 0x8000};
  }
}

/// `count` elements of value `bits` that begin `skew` bytes after an aligned address.
class Elements {
 public:
  Elements(DType dtype, std::int64_t count, std::int64_t skew, std::uint64_t bits)
      : dtype_(dtype), count_(count), skew_(skew), memory_(static_cast<std::size_t>(count * size_of(dtype) + skew)) {
    for (std::int64_t i = 0; i < count; ++i) set(i, bits);
  }
  /// Stores the lowest bytes of a little-endian number.
  void set(std::int64_t index, std::uint64_t bits) {
    std::memcpy(memory_.data() + skew_ + index * size_of(dtype_), &bits, static_cast<std::size_t>(size_of(dtype_)));
  }
  [[nodiscard]] ConstBuffer view() const { return {memory_.data() + skew_, {count_}, dtype_}; }

 private:
  DType dtype_;
  std::int64_t count_;
  std::int64_t skew_;
  std::vector<std::byte> memory_;
};

TEST(AllFinite, LargestAndSmallestNumbersAre) {
  for (const DType dtype : types) {
    const Extremes of = extremes(dtype);
    for (const std::uint64_t bits : {std::uint64_t{0}, std::uint64_t{1}, of.largest, of.sign, of.largest | of.sign}) {
      EXPECT_TRUE(all_finite(Elements(dtype, 100, 0, bits).view())) << name(dtype) << ' ' << std::hex << bits;
    }
    EXPECT_TRUE(all_finite(Elements(dtype, 0, 0, 0).view()));
  }
}

TEST(AllFinite, OneElementAtAnyPlaceAndAddressIsFound) {
  for (const DType dtype : types) {
    const Extremes of = extremes(dtype);
    for (const std::int64_t count : {1, 2, 31, 67, 1023, 1024, 1025, 2100}) {
      for (const std::int64_t skew : {0, 1, 3}) {
        Elements elements(dtype, count, skew, of.largest);
        for (const std::int64_t place : {std::int64_t{0}, count / 2, count - 1}) {
          for (const std::uint64_t bits : {of.infinite, of.quiet, of.signaling}) {
            for (const std::uint64_t sign : {std::uint64_t{0}, of.sign}) {
              elements.set(place, bits | sign);
              EXPECT_FALSE(all_finite(elements.view()))
                  << name(dtype) << ", element " << place << " of " << count << ", " << std::hex << (bits | sign);
            }
          }
          elements.set(place, of.largest);
        }
        EXPECT_TRUE(all_finite(elements.view()));
      }
    }
  }
}

TEST(AllFinite, IntegersAre) {
  for (const DType dtype : {DType::int32, DType::int64, DType::uint8}) {
    EXPECT_TRUE(all_finite(Elements(dtype, 100, 0, std::numeric_limits<std::uint64_t>::max()).view()));
  }
}

}  // namespace
}  // namespace lockstep::kernels
