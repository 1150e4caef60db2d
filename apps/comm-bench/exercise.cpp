// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/exercise.hpp"

namespace lockstep::comm_bench {

namespace {

bool exchanges(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all || kind == CollectiveKind::all_to_all_v;
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
  if (exchanges(shape.kind)) return shape.part * shape.ranks;
  return scatters_sums(shape.kind) ? parts[static_cast<std::size_t>(shape.me.value)] : Count{0};
}

}  // namespace

int parts_of(CollectiveKind kind, int ranks) {
  const bool has_parts = gathers(kind) || exchanges(kind) || scatters_sums(kind) || kind == CollectiveKind::scatter;
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
  const bool apart = exchanges(shape.kind) || scatters_sums(shape.kind);
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
    const Rank source_part = exchanges(shape_.kind) ? shape_.me : Rank{rank};
    pattern_.set_input(rank, repetition);
    wrong += pattern_.differences(part(result_, rank), offset_of_part(parts_of(theirs), source_part).value);
  }
  return wrong;
}

std::int64_t Exercise::wrong(std::int64_t repetition) {
  const bool is_root = shape_.me.value == 0;
  const std::int64_t own_part = offset_of_part(parts_, shape_.me).value;
  switch (shape_.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_gather_v:
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_v: return wrong_parts(repetition);
    case CollectiveKind::scatter:
      pattern_.set_input(0, repetition);
      return pattern_.differences(part(whole_, shape_.me.value), own_part);
    case CollectiveKind::gather:
      if (is_root) return wrong_parts(repetition);
      pattern_.set_input(shape_.me.value, repetition);
      break;
    case CollectiveKind::broadcast: pattern_.set_input(0, repetition); break;
    case CollectiveKind::reduce:
      if (!is_root) pattern_.set_input(shape_.me.value, repetition);
      if (is_root) pattern_.set_sum(repetition);
      break;
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::send:
    case CollectiveKind::recv:
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::barrier: pattern_.set_sum(repetition); break;
  }
  return pattern_.differences(result_, scatters_sums(shape_.kind) ? own_part : 0);
}

}  // namespace lockstep::comm_bench
