// SPDX-License-Identifier: Apache-2.0
// NVIDIA's 16-bit types, whose host functions the kernels use here, have the same bits as lockstep's kernels.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "emulated_gpu/kernel/device_array.hpp"
#include "emulated_gpu/kernel/features.hpp"
#include "kernels/cuda/element.hpp"

namespace emulated_gpu {
namespace {

using lockstep::kernels::cuda::BFloat16;
using lockstep::kernels::cuda::Float16;

template <typename T>
T from_short(std::uint32_t bits) {
  const auto narrow = static_cast<std::uint16_t>(bits);
  T value;
  std::memcpy(static_cast<void*>(&value), &narrow, sizeof value);
  return value;
}
template <typename T>
std::uint16_t to_short(T value) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Returns the floats next to and halfway between 16-bit values, and some others.
std::vector<float> floats_worth_rounding() {
  std::vector<float> floats;
  for (std::uint32_t high = 0; high < 65536; ++high)
    for (const std::uint32_t low :
         {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x3000U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      floats.push_back(std::bit_cast<float>(high << 16 | low));
  return floats;
}

TEST(Halves, AllValuesAreTheFloatsThatLockstepTakesThemFor) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float theirs = __half2float(from_short<__half>(bits));
    const float ours = Float16::widen(static_cast<std::uint16_t>(bits));
    if (std::isnan(ours)) {
      EXPECT_TRUE(std::isnan(theirs)) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(theirs), std::bit_cast<std::uint32_t>(ours)) << bits;
      EXPECT_EQ(to_short(__float2half(theirs)), bits);
    }
  }
}

TEST(Halves, FloatsAreRoundedAsByLockstep) {
  for (const float value : floats_worth_rounding()) {
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(__half2float(__float2half(value))));
    } else {
      EXPECT_EQ(to_short(__float2half(value)), Float16::narrow(value)) << value;
    }
  }
}

TEST(BFloats, AllValuesAreTheFloatsThatLockstepTakesThemFor) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float theirs = __bfloat162float(from_short<__nv_bfloat16>(bits));
    const float ours = BFloat16::widen(static_cast<std::uint16_t>(bits));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(theirs), std::bit_cast<std::uint32_t>(ours)) << bits;
    if (std::isnan(ours)) continue;
    EXPECT_EQ(to_short(__float2bfloat16(theirs)), bits);
  }
}

TEST(BFloats, FloatsAreRoundedAsByLockstep) {
  for (const float value : floats_worth_rounding()) {
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(__bfloat162float(__float2bfloat16(value))));
    } else {
      EXPECT_EQ(to_short(__float2bfloat16(value)), BFloat16::narrow(value)) << value;
    }
  }
}

TEST(Halves, AndBFloatsOfKernelsAreRoundedAfterEachOperation) {
  std::vector<unsigned short> all(65536);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) all[bits] = static_cast<unsigned short>(bits);
  const DeviceArray<unsigned short> halves(all);
  const DeviceArray<unsigned short> bfloats(all);
  features::double_halves(halves.data(), bfloats.data(), nullptr);
  const auto doubled_halves = halves.values();
  const auto doubled_bfloats = bfloats.values();
  for (const std::uint16_t bits : all) {
    const float half = Float16::widen(bits);
    if (!std::isnan(half) && !std::isnan(2 * half + 1)) {
      const float twice = Float16::widen(Float16::narrow(2 * half));
      EXPECT_EQ(doubled_halves[bits], Float16::narrow(twice + 1)) << half;
    }
    const float bfloat = BFloat16::widen(bits);
    if (std::isnan(bfloat)) continue;
    EXPECT_EQ(doubled_bfloats[bits], BFloat16::narrow(2 * bfloat + 1)) << bfloat;
  }
}

}  // namespace
}  // namespace emulated_gpu
