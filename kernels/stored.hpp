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

/// Holds `Lanes` values of type T in vectors of floats. As doubles, a vector fills a register of `register_bytes`. The
/// loops are written with vectors because the compiler does not vectorize their comparisons. Vectors are passed by
/// reference, because the ABI for returning them depends on the instruction set.
///
/// Two neighboring bfloat16 are widened as one number of 32 bits, by a shift and a mask. Vectors of even lanes and
/// vectors of odd lanes therefore alternate.
template <typename T, std::int64_t Lanes, std::int64_t register_bytes>
struct Packs {
  static constexpr bool of_pairs = sizeof(T) < sizeof(float) && Lanes > 1;
  static constexpr std::int64_t size = std::min<std::int64_t>(register_bytes / 8, of_pairs ? Lanes / 2 : Lanes);
  static constexpr std::int64_t count = Lanes / size;
  using Floats = typename VectorOf<float, size>::Type;
  using Doubles = typename VectorOf<double, size>::Type;
  using Bits = typename VectorOf<std::uint32_t, size>::Type;

  LOCKSTEP_INLINE static void load(Floats (&values)[count], const float* from) {
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(&values[k], from + k * size, sizeof values[k]);
  }
  LOCKSTEP_INLINE static void load(Floats (&values)[count], const bfloat16* from) {
    if constexpr (of_pairs) {
      for (std::int64_t k = 0; k < count; k += 2) {
        Bits pairs;
        std::memcpy(&pairs, from + k * size, sizeof pairs);
        const Bits even = pairs << 16;
        const Bits odd = pairs & upper_half;
        std::memcpy(&values[k], &even, sizeof even);
        std::memcpy(&values[k + 1], &odd, sizeof odd);
      }
    } else {
      values[0][0] = *from;
    }
  }
  LOCKSTEP_INLINE static void store(const Floats (&values)[count], float* to) {
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(to + k * size, &values[k], sizeof values[k]);
  }
  LOCKSTEP_INLINE static void store(const Floats (&values)[count], bfloat16* to) {
    if constexpr (size == 8) {
      store_registers(values, to);
    } else {
      Bits bits[count];
      for (std::int64_t k = 0; k < count; ++k) round(values[k], bits[k]);
      store_upper_halves(bits, to);
    }
  }

  /// Stores values that T represents exactly.
  LOCKSTEP_INLINE static void store_exact(const Floats (&values)[count], float* to) { store(values, to); }
  LOCKSTEP_INLINE static void store_exact(const Floats (&values)[count], bfloat16* to) {
    Bits bits[count];
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(&bits[k], &values[k], sizeof bits[k]);
    store_upper_halves(bits, to);
  }

  /// Loads or stores a value for each lane, which is in the order of the channels in memory.
  template <typename Vector, typename U>
  LOCKSTEP_INLINE static void load_each(Vector (&values)[count], const U* from) {
    for (std::int64_t k = 0; k < count; ++k) {
      Vector value{};
      for (std::int64_t i = 0; i < size; ++i) value[i] = from[lane_of(k, i)];
      values[k] = value;
    }
  }
  LOCKSTEP_INLINE static void store_each(const Doubles (&values)[count], double* to) {
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t i = 0; i < size; ++i) to[lane_of(k, i)] = values[k][i];
    }
  }

  /// This converts lane by lane because gcc 12 divides the conversion of a vector of 8 floats in two.
  LOCKSTEP_INLINE static void widen(const Floats& value, Doubles& wide) {
    for (std::int64_t i = 0; i < size; ++i) wide[i] = static_cast<double>(value[i]);
  }

  /// Rounds the value to T.
  LOCKSTEP_INLINE static void round_as_stored(Floats& value) {
    if constexpr (sizeof(T) < sizeof(float)) {
      Bits bits;
      round(value, bits);
      bits &= upper_half;
      std::memcpy(&value, &bits, sizeof value);
    }
  }

 private:
  static constexpr std::uint32_t upper_half = 0xffff0000U;

  static constexpr std::int64_t lane_of(std::int64_t k, std::int64_t i) {
    return of_pairs ? k / 2 * 2 * size + 2 * i + k % 2 : k * size + i;
  }
  /// Rounds to nearest, ties to even, at bit 16: the upper halves of `rounded` are the bfloat16.
  template <typename From, typename To>
  LOCKSTEP_INLINE static void round(const From& value, To& rounded) {
    To bits;
    std::memcpy(&bits, &value, sizeof bits);
    const To quiet_nan = bits | 0x400000U;
    const To number = bits + 0x7fffU + ((bits >> 16) & 1U);
    rounded = value != value ? quiet_nan : number;
  }
  /// Rounds two vectors of 8 floats at once: 16 even and 16 odd lanes, or 8 of each.
  LOCKSTEP_INLINE static void store_registers(const Floats (&values)[count], bfloat16* to) {
    using Register = typename VectorOf<std::uint32_t, 16>::Type;
    constexpr std::int64_t half = count / 2;
    Register rounded[half];
    for (std::int64_t k = 0; k < half; ++k) {
      round(__builtin_shufflevector(values[k], values[k + half], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
            rounded[k]);
    }
    if constexpr (count == 4) {
      const Register pairs = (rounded[0] >> 16) | (rounded[1] & upper_half);
      std::memcpy(to, &pairs, sizeof pairs);
    } else {
      store_upper_halves({__builtin_shufflevector(rounded[0], rounded[0], 0, 1, 2, 3, 4, 5, 6, 7),
                          __builtin_shufflevector(rounded[0], rounded[0], 8, 9, 10, 11, 12, 13, 14, 15)},
                         to);
    }
  }
  LOCKSTEP_INLINE static void store_upper_halves(const Bits (&bits)[count], bfloat16* to) {
    if constexpr (of_pairs) {
      for (std::int64_t k = 0; k < count; k += 2) {
        const Bits pairs = (bits[k] >> 16) | (bits[k + 1] & upper_half);
        std::memcpy(to + k * size, &pairs, sizeof pairs);
      }
    } else {
      to->bits = static_cast<std::uint16_t>(bits[0][0] >> 16);
    }
  }
};

/// Some channels of one image: element (position, lane) is at begin + position·stride + lane.
struct Block {
  std::int64_t begin;
  std::int64_t positions;
  std::int64_t stride;
  std::int64_t channel;  ///< of the first lane
};

/// Calls `kernel.run<Lanes, register_bytes>(block)` over all elements, which have type T: with 32 lanes while so many
/// remain and a register holds them, then with 16, 8 and 1.
template <typename T, std::int64_t register_bytes, typename Kernel>
LOCKSTEP_INLINE void for_each_block_in(const ChannelLayout& layout, const TensorPart& part, const Kernel kernel) {
  const std::int64_t run = layout.positions * layout.lanes;
  for (std::int64_t image = part.first_image; image < part.end_image; ++image) {
    for (std::int64_t group = part.first_group; group < part.end_group; ++group) {
      Block block{(image * layout.groups + group) * run, layout.positions, layout.lanes, group * layout.lanes};
      const auto advance = [&block](std::int64_t lanes) {
        block.begin += lanes;
        block.channel += lanes;
      };
      std::int64_t left = layout.lanes;
      if constexpr (register_bytes >= 32 * sizeof(T)) {
        for (; left >= 32; left -= 32, advance(32)) kernel.template run<32, register_bytes>(block);
      }
      for (; left >= 16; left -= 16, advance(16)) kernel.template run<16, register_bytes>(block);
      for (; left >= 8; left -= 8, advance(8)) kernel.template run<8, register_bytes>(block);
      for (; left >= 1; left -= 1, advance(1)) kernel.template run<1, register_bytes>(block);
    }
  }
}

#ifdef LOCKSTEP_HAS_TARGETS
template <typename T, typename Kernel>
[[gnu::target("avx512f")]] void for_each_block_avx512(const ChannelLayout& layout, const TensorPart& part,
                                                      const Kernel& kernel) {
  for_each_block_in<T, 64>(layout, part, kernel);
}
template <typename T, typename Kernel>
[[gnu::target("avx2")]] void for_each_block_avx2(const ChannelLayout& layout, const TensorPart& part,
                                                 const Kernel& kernel) {
  for_each_block_in<T, 32>(layout, part, kernel);
}
#endif

/// Calls `kernel.run` as above, compiled for the widest registers that the processor has. Their size is a parameter
/// because gcc keeps sums in memory if their vectors are wider.
template <typename T, typename Kernel>
void for_each_block(const ChannelLayout& layout, const TensorPart& part, const Kernel& kernel) {
#ifdef LOCKSTEP_HAS_TARGETS
  if (__builtin_cpu_supports("avx512f")) return for_each_block_avx512<T>(layout, part, kernel);
  if (__builtin_cpu_supports("avx2")) return for_each_block_avx2<T>(layout, part, kernel);
#endif
  for_each_block_in<T, 16>(layout, part, kernel);
}

/// Prefetches what a loop reads 4 KiB further on, because the processor's own prefetcher is too late for data in
/// memory.
template <typename T>
LOCKSTEP_INLINE void prefetch_ahead(const T* from) {
  __builtin_prefetch(reinterpret_cast<const char*>(from) + 4096);
}

/// Sets the values of the part's channels to zero.
inline void make_zero(const ChannelLayout& layout, const TensorPart& part, double* values) {
  std::fill(values + part.first_group * layout.lanes, values + part.end_group * layout.lanes, 0.0);
}

}  // namespace lockstep::kernels
