// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/batch_norm.hpp"
#include "kernels/vectorized.hpp"

namespace lockstep::kernels {

/// Some channels of one image: element (position, lane) is at begin + position·stride + lane.
struct Block {
  std::int64_t begin;
  std::int64_t positions;
  std::int64_t stride;
  std::int64_t channel;  ///< of the first lane
};

/// Calls `kernel.run<Lanes>(block)` over all elements, with 16 or 8 lanes at compile time if that many remain.
template <typename Kernel>
LOCKSTEP_INLINE void for_each_block(const ChannelLayout& layout, const TensorPart& part, const Kernel& kernel) {
  const std::int64_t run = layout.positions * layout.lanes;
  for (std::int64_t image = part.first_image; image < part.end_image; ++image) {
    for (std::int64_t group = part.first_group; group < part.end_group; ++group) {
      Block block{(image * layout.groups + group) * run, layout.positions, layout.lanes, group * layout.lanes};
      const auto advance = [&block](std::int64_t lanes) {
        block.begin += lanes;
        block.channel += lanes;
      };
      std::int64_t left = layout.lanes;
      for (; left >= 16; left -= 16, advance(16)) kernel.template run<16>(block);
      for (; left >= 8; left -= 8, advance(8)) kernel.template run<8>(block);
      for (; left >= 1; left -= 1, advance(1)) kernel.template run<1>(block);
    }
  }
}

/// Prefetches what a loop reads 4 KiB further on, because the processor's own prefetcher is too late for data in
/// memory.
template <typename T>
LOCKSTEP_INLINE void prefetch_ahead(const T* from) {
  __builtin_prefetch(reinterpret_cast<const char*>(from) + 4096);
}

/// One value for each lane, in registers, because the compiler cannot know that an output does not overlap the
/// coefficients.
template <typename T, std::int64_t Lanes>
struct Vector {
  T values[Lanes];
  LOCKSTEP_INLINE explicit Vector(const T* from) { std::copy_n(from, Lanes, values); }
  LOCKSTEP_INLINE T& operator[](std::int64_t lane) { return values[lane]; }
  LOCKSTEP_INLINE void store(T* to) const { std::copy_n(values, Lanes, to); }
};

/// Sets the values of the part's channels to zero.
inline void make_zero(const ChannelLayout& layout, const TensorPart& part, double* values) {
  std::fill(values + part.first_group * layout.lanes, values + part.end_group * layout.lanes, 0.0);
}

}  // namespace lockstep::kernels
