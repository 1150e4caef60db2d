// SPDX-License-Identifier: Apache-2.0
#pragma once

// This file has the loops over elements. They reduce an element's inputs in registers and then write every output.

#include "formats.hpp"
#include "kernels/instruction_set.hpp"
#include "max_pool.hpp"

namespace lockstep::kernels {
namespace {

template <typename T>
constexpr bool has_nan = static_cast<T>(0.5) != 0;

/// T is the element's type, V is T or a pack of T. Integers arrive unsigned, so that they wrap around.
struct Sum {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    if constexpr (__is_same(T, float)) return add_floats(a, b);
    if constexpr (__is_same(T, double)) return add_doubles(a, b);
    return static_cast<V>(a + b);
  }
};

struct Product {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    if constexpr (__is_same(T, float)) return multiply_floats(a, b);
    if constexpr (__is_same(T, double)) return multiply_doubles(a, b);
    // As an int, to which C++ promotes a single short number, the product may overflow.
    if constexpr (__is_same(T, V) && sizeof(T) < sizeof(unsigned)) return static_cast<V>(unsigned{a} * unsigned{b});
    return static_cast<V>(a * b);
  }
};

struct Min {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    const V smaller = b < a ? b : a;
    if constexpr (has_nan<T>) return b != b ? b : smaller;
    return smaller;
  }
};

struct Max {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    const V larger = b > a ? b : a;
    if constexpr (has_nan<T>) return b != b ? b : larger;
    return larger;
  }
};

/// What logical operators make of a number.
template <typename V>
LOCKSTEP_INLINE V truth(const V& a) {
  const V zero{};
  const V one = static_cast<V>(zero - static_cast<V>(~zero));
  return a != zero ? one : zero;
}

struct LogicalAnd {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    return static_cast<V>(truth(a) & truth(b));
  }
};

struct LogicalOr {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    return truth(static_cast<V>(a | b));
  }
};

struct LogicalXor {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    return static_cast<V>(truth(a) ^ truth(b));
  }
};

struct BitAnd {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    return static_cast<V>(a & b);
  }
};

struct BitOr {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    return static_cast<V>(a | b);
  }
};

struct BitXor {
  template <typename T, typename V>
  LOCKSTEP_INLINE static V apply(const V& a, const V& b) {
    return static_cast<V>(a ^ b);
  }
};

/// Holds `known` addresses in registers, or any number of addresses (known = 0) in memory.
template <int known>
struct Inputs {
  const char* address[known];
  explicit Inputs(const InstructionSet::Operands& o) {
    for (int k = 0; k < known; ++k) address[k] = static_cast<const char*>(o.ins[k]);
  }
  static constexpr std::int64_t count() { return known; }
  [[nodiscard]] const char* at(std::int64_t k) const { return address[k]; }
};
template <>
struct Inputs<0> {
  const void* const* addresses;
  std::int64_t number;
  explicit Inputs(const InstructionSet::Operands& o) : addresses(o.ins), number(o.in_count) {}
  [[nodiscard]] std::int64_t count() const { return number; }
  [[nodiscard]] const char* at(std::int64_t k) const { return static_cast<const char*>(addresses[k]); }
};

/// Combines `packs` packs of `lanes` elements, `offset` bytes from the beginning.
template <typename Format, typename Op, int lanes, int packs, typename In>
LOCKSTEP_INLINE void combine_block(const InstructionSet::Operands& o, const In& in, std::int64_t offset,
                                   bool streaming) {
  using Stored = Pack<typename Format::Stored, lanes>;
  using Value = Pack<typename Format::Value, lanes>;
  constexpr std::int64_t step = sizeof(Stored);
  const auto input = [&](std::int64_t k, int pack) {
    return Format::template widen<lanes>(load<Stored>(in.at(k) + offset + pack * step));
  };
  Value values[packs];
  for (int pack = 0; pack < packs; ++pack) values[pack] = input(0, pack);
  for (std::int64_t k = 1; k < in.count(); ++k) {
    for (int pack = 0; pack < packs; ++pack) {
      values[pack] = Op::template apply<typename Format::Value>(values[pack], input(k, pack));
    }
  }
  Stored results[packs];
  for (int pack = 0; pack < packs; ++pack) results[pack] = Format::template narrow<lanes>(values[pack]);
  for (std::int64_t k = 0; k < o.out_count; ++k) {
    char* const to = static_cast<char*>(o.outs[k]) + offset;
    for (int pack = 0; pack < packs; ++pack) {
      if (lanes > 1 && streaming) {
        store_streaming(to + pack * step, results[pack]);
      } else {
        store(to + pack * step, results[pack]);
      }
    }
  }
}

/// The prefetch distance in bytes. Among the distances tried between two ranks at 64 KiB, this one gained most.
constexpr std::int64_t prefetch_distance = 1024;

template <std::int64_t bytes, typename In>
LOCKSTEP_INLINE void prefetch(const In& in, std::int64_t offset) {
  for (std::int64_t k = 0; k < in.count(); ++k) {
    for (std::int64_t line = 0; line < bytes; line += cache_line) __builtin_prefetch(in.at(k) + offset + line);
  }
}

/// The distance from the first output to the next cache line, in bytes; 0 if it is not a multiple of the element size.
template <typename Stored>
std::int64_t bytes_to_line(const InstructionSet::Operands& o) {
  const auto address = reinterpret_cast<std::uintptr_t>(o.outs[0]);
  const auto bytes = static_cast<std::int64_t>(-address % static_cast<std::uintptr_t>(cache_line));
  return bytes % static_cast<std::int64_t>(sizeof(Stored)) == 0 ? bytes : 0;
}

template <typename Format, typename Op, int known>
void combine(const InstructionSet::Operands& operands) {
  const InstructionSet::Operands o = operands;  // a local copy, which no store to an output can change
  using Stored = typename Format::Stored;
  constexpr int lanes = lanes_of<typename Format::Value>;
  constexpr int packs = 4;
  constexpr std::int64_t step = sizeof(Stored);
  const Inputs<known> in(o);
  const std::int64_t end = o.elements * step;
  std::int64_t offset = 0;
  if constexpr (lanes > 1) {
    if (o.streaming) {
      const std::int64_t head = bytes_to_line<Stored>(o);
      for (; offset < head && offset < end; offset += step) combine_block<Format, Op, 1, 1>(o, in, offset, false);
    }
    for (; offset + packs * lanes * step <= end; offset += packs * lanes * step) {
      if (o.prefetch && offset + prefetch_distance < end)
        prefetch<packs * lanes * step>(in, offset + prefetch_distance);
      combine_block<Format, Op, lanes, packs>(o, in, offset, o.streaming);
    }
    for (; offset + lanes * step <= end; offset += lanes * step) {
      combine_block<Format, Op, lanes, 1>(o, in, offset, o.streaming);
    }
  }
  for (; offset < end; offset += step) combine_block<Format, Op, 1, 1>(o, in, offset, false);
  if (o.streaming) finish_streaming();
}

template <typename Format>
void widen(const std::uint16_t* from, float* to, std::int64_t count) {
  constexpr int lanes = lanes_of<float>;
  std::int64_t i = 0;
  for (; lanes > 1 && i + lanes <= count; i += lanes) {
    const auto stored = load<Bits16<lanes>>(reinterpret_cast<const char*>(from + i));
    store(reinterpret_cast<char*>(to + i), Format::template widen<lanes>(stored));
  }
  for (; i < count; ++i) to[i] = Format::template widen<1>(from[i]);
}

template <typename Format>
void narrow(const float* from, std::uint16_t* to, std::int64_t count) {
  constexpr int lanes = lanes_of<float>;
  std::int64_t i = 0;
  for (; lanes > 1 && i + lanes <= count; i += lanes) {
    const auto value = load<Floats<lanes>>(reinterpret_cast<const char*>(from + i));
    store(reinterpret_cast<char*>(to + i), Format::template narrow<lanes>(value));
  }
  for (; i < count; ++i) to[i] = Format::template narrow<1>(from[i]);
}

/// Rounds float32 to the 16-bit format and widens the result again.
template <typename Format>
void round_through(const float* from, float* to, std::int64_t count) {
  constexpr int lanes = lanes_of<float>;
  std::int64_t i = 0;
  for (; lanes > 1 && i + lanes <= count; i += lanes) {
    const auto value = load<Floats<lanes>>(reinterpret_cast<const char*>(from + i));
    store(reinterpret_cast<char*>(to + i), Format::template widen<lanes>(Format::template narrow<lanes>(value)));
  }
  for (; i < count; ++i) to[i] = Format::template widen<1>(Format::template narrow<1>(from[i]));
}

// clang-format off
#define LOCKSTEP_ARITIES(Format, Op) {combine<Format, Op, 2>, combine<Format, Op, 3>, combine<Format, Op, 4>, combine<Format, Op, 0>}
#define LOCKSTEP_OPS(Arithmetic, Order) LOCKSTEP_ARITIES(Arithmetic, Sum), LOCKSTEP_ARITIES(Order, Min), LOCKSTEP_ARITIES(Order, Max), LOCKSTEP_ARITIES(Arithmetic, Product)
#define LOCKSTEP_REAL(Format) {LOCKSTEP_OPS(Format, Format)}
#define LOCKSTEP_LOGICAL(Format) LOCKSTEP_ARITIES(Format, LogicalAnd), LOCKSTEP_ARITIES(Format, LogicalOr), LOCKSTEP_ARITIES(Format, LogicalXor)
#define LOCKSTEP_INTEGER(Arithmetic, Order) {LOCKSTEP_OPS(Arithmetic, Order), LOCKSTEP_LOGICAL(Arithmetic)}
#define LOCKSTEP_BYTE(Format) {LOCKSTEP_OPS(Format, Format), LOCKSTEP_LOGICAL(Format), LOCKSTEP_ARITIES(Format, BitAnd), LOCKSTEP_ARITIES(Format, BitOr), LOCKSTEP_ARITIES(Format, BitXor)}
// clang-format on

constexpr InstructionSet make_instruction_set(const char* name) {
  return {name,
          {LOCKSTEP_REAL(Plain<float>), LOCKSTEP_REAL(Plain<double>),
           LOCKSTEP_INTEGER(Plain<std::uint32_t>, Plain<std::int32_t>),
           LOCKSTEP_INTEGER(Plain<std::uint64_t>, Plain<std::int64_t>), LOCKSTEP_BYTE(Plain<std::uint8_t>),
           LOCKSTEP_REAL(Float16), LOCKSTEP_REAL(BFloat16), LOCKSTEP_INTEGER(Plain<std::uint8_t>, Plain<std::int8_t>),
           LOCKSTEP_INTEGER(Plain<std::uint16_t>, Plain<std::int16_t>),
           LOCKSTEP_INTEGER(Plain<std::uint16_t>, Plain<std::uint16_t>)},
          combine<Plain<std::uint8_t>, Sum, 1>,
          widen<Float16>,
          widen<BFloat16>,
          narrow<Float16>,
          narrow<BFloat16>,
          round_through<Float16>,
          round_through<BFloat16>,
          max_pool_loops,
          max_pool_backward_loops};
}

}  // namespace
}  // namespace lockstep::kernels
