// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

/// The grids of kernels whose threads take several elements each.
namespace lockstep::kernels::cuda {

constexpr int threads_of_block = 256;

/// Returns the number of blocks for so many elements. 2048 fill any GPU.
inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::min<std::int64_t>((count + threads_of_block - 1) / threads_of_block, 2048));
}

}  // namespace lockstep::kernels::cuda
