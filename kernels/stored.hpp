// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/batch_norm.hpp"
#include "kernels/convert.hpp"
#include "kernels/vectorized.hpp"

/// Access to elements for loops that compute in float32. The elements are stored as float32, or as bfloat16, which is
/// rounded to nearest, ties to even.
namespace lockstep::kernels {

/// A vector of `size` numbers, which the compiler keeps in registers.
template <typename T, std::int64_t size>
struct VectorOf {
  using Type [[gnu::vector_size(size * sizeof(T))]] = T;
};

/// Holds `Lanes` values in vectors of the size that an instruction converts between float and double. The loops are
/// written with vectors because the compiler does not vectorize their comparisons. Vectors are passed by reference,
/// because the ABI for returning them depends on the instruction set.
template <std::int64_t Lanes>
struct Packs {
  static constexpr std::int64_t size = Lanes >= 8 ? 8 : 1;
  static constexpr std::int64_t count = Lanes / size;
  using Floats = typename VectorOf<float, size>::Type;
  using Doubles = typename VectorOf<double, size>::Type;
  using Bits16 = typename VectorOf<std::uint16_t, size>::Type;
  using Bits32 = typename VectorOf<std::uint32_t, size>::Type;

  /// Loads all lanes.
  template <typename Vector, typename T>
  LOCKSTEP_INLINE static void load(Vector (&values)[count], const T* from) {
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(&values[k], from + k * size, sizeof values[k]);
  }
  LOCKSTEP_INLINE static void load(Floats (&values)[count], const bfloat16* from) {
    Bits16 stored[count];
    load(stored, &from->bits);
    for (std::int64_t k = 0; k < count; ++k) widen(stored[k], values[k]);
  }
  template <typename Vector, typename T>
  LOCKSTEP_INLINE static void store(const Vector (&values)[count], T* to) {
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(to + k * size, &values[k], sizeof values[k]);
  }
  LOCKSTEP_INLINE static void store(const Floats (&values)[count], bfloat16* to) {
    Bits16 stored[count];
    for (std::int64_t k = 0; k < count; ++k) narrow(values[k], stored[k]);
    store(stored, &to->bits);
  }

  /// Stores values that T represents exactly.
  template <typename T>
  LOCKSTEP_INLINE static void store_exact(const Floats (&values)[count], T* to) {
    store(values, to);
  }
  LOCKSTEP_INLINE static void store_exact(const Floats (&values)[count], bfloat16* to) {
    Bits16 stored[count];
    for (std::int64_t k = 0; k < count; ++k) {
      Bits32 bits;
      std::memcpy(&bits, &values[k], sizeof bits);
      take_upper_halves(bits, stored[k]);
    }
    store(stored, &to->bits);
  }

  /// Rounds the value to T.
  template <typename T>
  LOCKSTEP_INLINE static void round_as(Floats& value) {
    if constexpr (sizeof(T) < sizeof(float)) {
      Bits32 bits;
      round(value, bits);
      bits &= 0xffff0000U;
      std::memcpy(&value, &bits, sizeof value);
    }
  }

 private:
  LOCKSTEP_INLINE static void widen(const Bits16& stored, Floats& value) {
    const Bits32 bits = __builtin_convertvector(stored, Bits32) << 16;
    std::memcpy(&value, &bits, sizeof value);
  }
  LOCKSTEP_INLINE static void narrow(const Floats& value, Bits16& stored) {
    Bits32 bits;
    round(value, bits);
    take_upper_halves(bits, stored);
  }
  /// Rounds to nearest, ties to even, at bit 16: the upper halves of `rounded` are the bfloat16.
  LOCKSTEP_INLINE static void round(const Floats& value, Bits32& rounded) {
    Bits32 bits;
    std::memcpy(&bits, &value, sizeof bits);
    const Bits32 quiet_nan = bits | 0x400000U;
    const Bits32 number = bits + 0x7fffU + ((bits >> 16) & 1U);
    rounded = value != value ? quiet_nan : number;
  }
  /// Uses a shuffle, because compilers split a shift and a conversion into scalar code.
  LOCKSTEP_INLINE static void take_upper_halves(const Bits32& bits, Bits16& upper) {
    typename VectorOf<std::uint16_t, 2 * size>::Type halves;
    std::memcpy(&halves, &bits, sizeof halves);
    if constexpr (size == 1) {
      upper[0] = halves[1];
    } else {
      upper = __builtin_shufflevector(halves, halves, 1, 3, 5, 7, 9, 11, 13, 15);
    }
  }
};

/// `read` and `place_of` let loops over floats access the lanes in place, or in `space` if they are stored as bfloat16.
template <std::int64_t Lanes>
LOCKSTEP_INLINE const float* read(const float* from, float (&/*space*/)[Lanes]) {
  return from;
}
template <std::int64_t Lanes>
LOCKSTEP_INLINE const float* read(const bfloat16* from, float (&space)[Lanes]) {
  using Pack = Packs<Lanes>;
  typename Pack::Floats values[Pack::count];
  Pack::load(values, from);
  Pack::store(values, space);
  return space;
}
template <std::int64_t Lanes>
LOCKSTEP_INLINE float* place_of(float* to, float (&/*space*/)[Lanes]) {
  return to;
}
template <std::int64_t Lanes>
LOCKSTEP_INLINE float* place_of(bfloat16* /*to*/, float (&space)[Lanes]) {
  return space;
}
/// Stores the lanes that were written to `space`.
template <std::int64_t Lanes>
LOCKSTEP_INLINE void write(float (&/*space*/)[Lanes], float* /*to*/) {}
template <std::int64_t Lanes>
LOCKSTEP_INLINE void write(float (&space)[Lanes], bfloat16* to) {
  using Pack = Packs<Lanes>;
  typename Pack::Floats values[Pack::count];
  Pack::load(values, space);
  Pack::store(values, to);
}

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
