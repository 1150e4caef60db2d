#include "apps/comm-bench/exercise.hpp"

namespace lockstep::comm_bench {

int parts_of(CollectiveKind kind, int ranks) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ? ranks : 1;
}

Bytes Exercise::memory_needed(const Shape& shape) {
  const int parts = parts_of(shape.kind, shape.ranks) + (shape.kind == CollectiveKind::reduce_scatter ? 1 : 0);
  return {shape.part.value * parts * size_of(shape.dtype)};
}

Exercise::Exercise(const Shape& shape, void* memory) : shape_(shape), pattern_(shape.dtype, shape.ranks) {
  if (shape.kind == CollectiveKind::barrier) shape_.part = {0};
  const Count count{shape_.part.value * parts_of(shape.kind, shape.ranks)};
  whole_ = {memory, count, shape.dtype};
  result_ = shape.kind == CollectiveKind::reduce_scatter
                ? Buffer{static_cast<std::byte*>(memory) + whole_.bytes().value, shape_.part, shape.dtype}
                : whole_;
}

Collective Exercise::collective() const {
  Collective c{.kind = shape_.kind, .in = whole_, .out = result_};
  if (shape_.kind == CollectiveKind::all_gather) c.in = part(shape_.me.value);
  return c;
}

void Exercise::refill(std::int64_t repetition) {
  pattern_.set_input(shape_.me.value, repetition);
  pattern_.write(whole_, 0);
  // Shifted by one element: no sum, nor this rank's own part.
  if (shape_.kind == CollectiveKind::reduce_scatter) pattern_.write(result_, 1);
}

std::int64_t Exercise::wrong(std::int64_t repetition) {
  if (shape_.kind == CollectiveKind::all_gather) {
    std::int64_t wrong = 0;
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      pattern_.set_input(rank, repetition);
      wrong += pattern_.differences(part(rank), rank * shape_.part.value);
    }
    return wrong;
  }
  if (shape_.kind == CollectiveKind::broadcast) {
    pattern_.set_input(0, repetition);
  } else {
    pattern_.set_sum(repetition);
  }
  const bool scattered = shape_.kind == CollectiveKind::reduce_scatter;
  return pattern_.differences(result_, scattered ? shape_.me.value * shape_.part.value : 0);
}

}  // namespace lockstep::comm_bench
