// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/exercise.hpp"

namespace lockstep::comm_bench {

namespace {

/// Parts of a result that lies apart from the input; 0 in place.
int parts_apart(CollectiveKind kind, int ranks) {
  if (kind == CollectiveKind::reduce_scatter) return 1;
  return kind == CollectiveKind::all_to_all ? ranks : 0;
}

}  // namespace

int parts_of(CollectiveKind kind, int ranks) {
  return kind == CollectiveKind::all_gather || parts_apart(kind, ranks) > 0 ? ranks : 1;
}

Bytes Exercise::memory_needed(const Shape& shape) {
  const int parts = parts_of(shape.kind, shape.ranks) + parts_apart(shape.kind, shape.ranks);
  return {shape.part.value * parts * size_of(shape.dtype)};
}

Exercise::Exercise(const Shape& shape, void* memory) : shape_(shape), pattern_(shape.dtype, shape.ranks) {
  if (shape.kind == CollectiveKind::barrier) shape_.part = {0};
  const Count count{shape_.part.value * parts_of(shape.kind, shape.ranks)};
  whole_ = {memory, count, shape.dtype};
  const Count apart{shape_.part.value * parts_apart(shape.kind, shape.ranks)};
  result_ = parts_apart(shape.kind, shape.ranks) > 0
                ? Buffer{static_cast<std::byte*>(memory) + whole_.bytes().value, apart, shape.dtype}
                : whole_;
}

Collective Exercise::collective() const {
  Collective c{.kind = shape_.kind, .in = whole_, .out = result_};
  if (shape_.kind == CollectiveKind::all_gather) c.in = part(whole_, shape_.me.value);
  return c;
}

void Exercise::refill(std::int64_t repetition) {
  pattern_.set_input(shape_.me.value, repetition);
  pattern_.write(whole_, 0);
  // Shifted by one element: no sum, nor this rank's own part.
  if (parts_apart(shape_.kind, shape_.ranks) > 0) pattern_.write(result_, 1);
}

std::int64_t Exercise::wrong_parts(std::int64_t repetition) {
  std::int64_t wrong = 0;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const int source_part = shape_.kind == CollectiveKind::all_to_all ? shape_.me.value : rank;
    pattern_.set_input(rank, repetition);
    wrong += pattern_.differences(part(result_, rank), source_part * shape_.part.value);
  }
  return wrong;
}

std::int64_t Exercise::wrong(std::int64_t repetition) {
  const bool is_root = shape_.me.value == 0;
  switch (shape_.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all: return wrong_parts(repetition);
    case CollectiveKind::broadcast: pattern_.set_input(0, repetition); break;
    case CollectiveKind::reduce:
      if (!is_root) pattern_.set_input(shape_.me.value, repetition);
      if (is_root) pattern_.set_sum(repetition);
      break;
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_then:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::send:
    case CollectiveKind::recv:
    case CollectiveKind::barrier: pattern_.set_sum(repetition); break;
  }
  const bool scattered = shape_.kind == CollectiveKind::reduce_scatter;
  return pattern_.differences(result_, scattered ? shape_.me.value * shape_.part.value : 0);
}

}  // namespace lockstep::comm_bench
