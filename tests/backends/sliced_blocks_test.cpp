// SPDX-License-Identifier: Apache-2.0
// Tests how the nccl back end splits a buffer that it reduces in tree order.
#include "backends/nccl/sliced_blocks.hpp"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::backends {
namespace {

constexpr Bytes scratch{3000};

void expect_each_element_once(Count count, DType dtype, int ranks, int operands) {
  const SlicedBlocks blocks(count, dtype, ranks, operands, scratch);
  std::int64_t next = 0;
  for (std::int64_t block = 0; block < blocks.size(); ++block) {
    for (int rank = 0; rank < ranks; ++rank) {
      const SlicedBlocks::Slice slice = blocks.slice(block, rank);
      ASSERT_EQ(slice.offset.value, next);
      ASSERT_LE(operands * slice.count.value * size_of(dtype), scratch.value) << "scratch overflows";
      next += slice.count.value;
    }
  }
  ASSERT_EQ(next, count.value);
}

TEST(SlicedBlocks, HaveEachElementOnceAndFitIntoScratch) {
  for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32, DType::float64}) {
    for (int ranks = 2; ranks <= 64; ++ranks) {
      for (const std::int64_t count : {0, 1, ranks - 1, ranks, ranks + 1, 2999, 3000, 3001, 100'003}) {
        SCOPED_TRACE(std::to_string(count) + " on " + std::to_string(ranks));
        expect_each_element_once({count}, dtype, ranks, ranks - 1);
        expect_each_element_once({count}, dtype, ranks, 3 * ranks);
      }
    }
  }
}

TEST(SlicedBlocks, AreAsFewAsScratchAllows) {
  EXPECT_EQ(SlicedBlocks({2 * 750}, DType::float32, 2, 1, scratch).size(), 1);
  EXPECT_EQ(SlicedBlocks({2 * 750 + 1}, DType::float32, 2, 1, scratch).size(), 2);
  EXPECT_EQ(SlicedBlocks({0}, DType::float32, 2, 1, scratch).size(), 0);
}

}  // namespace
}  // namespace lockstep::backends
