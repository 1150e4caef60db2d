// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/exercise.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/split_mix.hpp"
#include "kernels/convert.hpp"
#include "kernels/reduce.hpp"

namespace lockstep::comm_bench {
namespace {

/// Returns well-mixed bits.
std::uint64_t mix(int rank, std::int64_t element, std::int64_t repetition) {
  return split_mix::mix(static_cast<std::uint64_t>(element) * split_mix::golden_ratio +
                        static_cast<std::uint64_t>(rank) * 0xd1b54a32d192ed03ULL +
                        static_cast<std::uint64_t>(repetition));
}

template <typename T>
T element_of(std::uint64_t value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    const auto wide = static_cast<float>(value);
    T element;
    kernels::convert(std::span(&wide, 1), std::span(&element, 1));
    return element;
  }
}

/// Splits `count` elements of the sequence, from `first` on, at the ends of periods. Calls piece(offset, index in the
/// period, count).
template <typename F>
void for_each_piece(std::int64_t count, std::int64_t first, const F& piece) {
  for (std::int64_t offset = 0; offset < count;) {
    const std::int64_t index = (first + offset) % Pattern::period;
    const std::int64_t length = std::min(Pattern::period - index, count - offset);
    piece(offset, index, length);
    offset += length;
  }
}

/// Returns whether the result is the caller's part of a sum.
bool scatters_sums(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce_scatter_v;
}

bool gathers(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::gather || kind == CollectiveKind::all_gather_v;
}

/// Returns the number of elements of a result that is not in place; 0 in place.
Count count_apart(const Exercise::Shape& shape, const std::vector<Count>& parts) {
  if (is_all_to_all(shape.kind)) return shape.part * shape.ranks;
  return scatters_sums(shape.kind) ? parts[static_cast<std::size_t>(shape.me.value)] : Count{0};
}

}  // namespace

Pattern::Pattern(DType dtype, int ranks)
    : dtype_(dtype), ranks_(ranks), tile_(static_cast<std::size_t>(period * size_of(dtype))) {}

void Pattern::set(int first_rank, int last_rank, std::int64_t repetition) {
  const auto values = static_cast<std::uint64_t>(std::clamp(256 / ranks_, 2, 128));  // values are 0 … values − 1
  if (last_rank < first_rank) return kernels::fill_neutral(tile_.data(), {period}, dtype_, ReduceOp::sum);
  kernels::with_type(dtype_, [&](auto zero) {
    for (std::int64_t i = 0; i < period; ++i) {
      std::uint64_t sum = 0;
      for (int rank = first_rank; rank <= last_rank; ++rank) sum += mix(rank, i, repetition) % values;
      const auto element = element_of<decltype(zero)>(sum);
      std::memcpy(tile_.data() + static_cast<std::size_t>(i) * sizeof element, &element, sizeof element);
    }
  });
}

void Pattern::write(const Buffer& to, std::int64_t first) const {
  const std::int64_t width = size_of(dtype_);
  for_each_piece(to.count.value, first, [&](std::int64_t offset, std::int64_t index, std::int64_t length) {
    std::memcpy(static_cast<std::byte*>(to.data) + offset * width, tile_.data() + index * width,
                static_cast<std::size_t>(length * width));
  });
}

std::int64_t Pattern::differences(const ConstBuffer& in, std::int64_t first) const {
  const std::int64_t width = size_of(dtype_);
  const auto equal = [&](const std::byte* a, const std::byte* b, std::int64_t length) {
    return std::memcmp(a, b, static_cast<std::size_t>(length * width)) == 0;
  };
  std::int64_t different = 0;
  for_each_piece(in.count.value, first, [&](std::int64_t offset, std::int64_t index, std::int64_t length) {
    const std::byte* actual = static_cast<const std::byte*>(in.data) + offset * width;
    const std::byte* expected = tile_.data() + index * width;
    if (equal(actual, expected, length)) return;
    for (std::int64_t i = 0; i < length; ++i) {
      if (!equal(actual + i * width, expected + i * width, 1)) ++different;
    }
  });
  return different;
}

int parts_of(CollectiveKind kind, int ranks) {
  const bool has_parts = gathers(kind) || is_all_to_all(kind) || scatters_sums(kind) || kind == CollectiveKind::scatter;
  return has_parts ? ranks : 1;
}

std::vector<Count> Exercise::parts_of(const Shape& shape) {
  const std::int64_t ranks = shape.ranks;
  std::vector<Count> parts(static_cast<std::size_t>(ranks), shape.part);
  if (!has_part_counts(shape.kind)) return parts;
  const std::int64_t first = shape.kind == CollectiveKind::all_to_all_v ? shape.me.value : 0;
  std::int64_t left = shape.part.value * ranks;
  for (std::int64_t k = 0; k < ranks; ++k) {
    const std::int64_t share = k + 1 < ranks ? shape.part.value * 2 * (k + 1) / (ranks + 1) : left;
    parts[static_cast<std::size_t>((k - first + ranks) % ranks)] = {share};
    left -= share;
  }
  return parts;
}

Bytes Exercise::memory_needed(const Shape& shape) {
  const std::int64_t whole = shape.part.value * comm_bench::parts_of(shape.kind, shape.ranks);
  return {(whole + count_apart(shape, parts_of(shape)).value) * size_of(shape.dtype)};
}

Exercise::Exercise(const Shape& shape, void* memory) : shape_(shape), pattern_(shape.dtype, shape.ranks) {
  if (shape.kind == CollectiveKind::barrier) shape_.part = {0};
  parts_ = parts_of(shape_);
  whole_ = {memory, shape_.part * comm_bench::parts_of(shape.kind, shape.ranks), shape.dtype};
  const bool apart = is_all_to_all(shape.kind) || scatters_sums(shape.kind);
  result_ =
      apart ? Buffer{static_cast<std::byte*>(memory) + whole_.bytes().value, count_apart(shape_, parts_), shape.dtype}
            : whole_;
}

Collective Exercise::collective() const {
  Collective c{.kind = shape_.kind, .in = whole_, .out = result_};
  if (gathers(shape_.kind)) c.in = part(whole_, shape_.me.value);
  if (shape_.kind == CollectiveKind::scatter) c.out = part(whole_, shape_.me.value);
  if (has_part_counts(shape_.kind)) c.parts = parts_;
  if (shape_.kind == CollectiveKind::all_to_all_v) c.received = parts_;
  return c;
}

void Exercise::refill(std::int64_t repetition) {
  pattern_.set_input(shape_.me.value, repetition);
  pattern_.write(whole_, 0);
  // The initial result is shifted by one element, so that it equals neither a sum nor this rank's own part.
  if (result_.data != whole_.data) pattern_.write(result_, 1);
}

std::int64_t Exercise::wrong_parts(std::int64_t repetition) {
  std::int64_t wrong = 0;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    Shape theirs = shape_;
    theirs.me = {rank};
    const Rank source_part = is_all_to_all(shape_.kind) ? shape_.me : Rank{rank};
    pattern_.set_input(rank, repetition);
    wrong += pattern_.differences(part(result_, rank), offset_of_part(parts_of(theirs), source_part).value);
  }
  return wrong;
}

std::int64_t Exercise::wrong(std::int64_t repetition) {
  const CollectiveKind kind = shape_.kind;
  const bool is_root = shape_.me.value == 0;
  if (is_all_to_all(kind) || (gathers(kind) && (kind != CollectiveKind::gather || is_root)))
    return wrong_parts(repetition);
  const bool from_root = kind == CollectiveKind::broadcast || kind == CollectiveKind::scatter;
  if (is_scan(kind)) {
    pattern_.set_sum_up_to(shape_.me.value - (kind == CollectiveKind::exclusive_scan ? 1 : 0), repetition);
  } else if (is_reduction(kind) && (kind != CollectiveKind::reduce || is_root)) {
    pattern_.set_sum(repetition);
  } else {
    pattern_.set_input(from_root ? 0 : shape_.me.value, repetition);
  }
  const std::int64_t own_part = offset_of_part(parts_, shape_.me).value;
  if (kind == CollectiveKind::scatter) return pattern_.differences(part(whole_, shape_.me.value), own_part);
  return pattern_.differences(result_, scatters_sums(kind) ? own_part : 0);
}

}  // namespace lockstep::comm_bench
