// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "mpi-scripts/bench/smpi/data.hpp"

namespace lockstep::smpi {
namespace {

std::span<float> elements(const Buffer& buffer) {
  return {static_cast<float*>(buffer.data), static_cast<std::size_t>(buffer.count.value)};
}

/// Returns a small integer, so that sums are exact in any order.
float contribution(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 3) % 31);
}

}  // namespace

void fill(const Buffer& buffer, int me) {
  std::size_t index = 0;
  for (float& x : elements(buffer)) x = contribution(me, index++);
}

std::int64_t wrong(const Buffer& buffer, int ranks) {
  std::int64_t differences = 0;
  std::size_t index = 0;
  for (const float x : elements(buffer)) {
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += contribution(rank, index);
    differences += x == sum ? 0 : 1;
    ++index;
  }
  return differences;
}

void leave_data_out() {}

}  // namespace lockstep::smpi
