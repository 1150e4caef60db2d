// SPDX-License-Identifier: Apache-2.0
// Tests that the kernels which go over packs have as many blocks as run at the same time.
#include <gtest/gtest.h>

#include "lockstep/ops/cuda.hpp"
#include "lockstep/ops/ops.hpp"
#include "ops/cuda/device/channels.cuh"

namespace lockstep::ops::cuda {
namespace {

/// Writes the number of blocks that share the positions of a pack.
struct CountBlocks {
  std::int64_t* blocks;

  static constexpr int batch = 1;
  static constexpr int blocks_of_multiprocessor = 1;
  struct Constants {};
  struct Loaded {};
  __device__ Constants constants(std::int64_t /*pack*/) const { return {}; }
  __device__ Loaded load(std::int64_t /*i*/) const { return {}; }
  __device__ void operator()(std::int64_t i, Loaded /*loaded*/, const Constants& /*constants*/) const {
    if (i == 0) *blocks = gridDim.y;
  }
};

std::int64_t blocks_of_pack(std::int64_t positions, std::int64_t packs) {
  const auto ops = make_cuda_ops(0);
  const ComputeDevice& device = ops->device();
  const Bytes bytes{sizeof(std::int64_t)};
  const Allocation blocks = device.allocate(bytes);
  const PackTiles tiles(view_of(nhwc({positions, 4 * packs, 1, 1}, DType::float32)), 4);
  for_each_pack(tiles, CountBlocks{static_cast<std::int64_t*>(blocks.data())}, device.queue());
  std::int64_t found = 0;
  device.copy(&found, blocks.data(), bytes, device.queue());
  device.wait(device.queue());
  return found;
}

/// The emulated GPU has 132 multiprocessors with 2048 threads each, and a block has 256, of 32 packs.
TEST(PackGrid, HasTheBlocksThatRunAtTheSameTime) {
  constexpr std::int64_t packs = 33 * 32;
  EXPECT_EQ(blocks_of_pack(400, packs), 132 * 8 / 33);
  EXPECT_EQ(blocks_of_pack(80, packs), 80 / 8) << "there are no more positions";
}

}  // namespace
}  // namespace lockstep::ops::cuda
