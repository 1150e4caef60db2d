// SPDX-License-Identifier: Apache-2.0
#include "kernels/max_pool.hpp"

#include "kernels/instruction_set.hpp"

namespace lockstep::kernels {

void max_pool(const PoolGrid& grid, const float* x, float* y, std::uint8_t* places) {
  widest_instruction_set().max_pool(grid, x, y, places);
}

void max_pool_backward(const PoolGrid& grid, const std::uint8_t* places, const float* dy, float* dx) {
  widest_instruction_set().max_pool_backward(grid, places, dy, dx);
}

}  // namespace lockstep::kernels
