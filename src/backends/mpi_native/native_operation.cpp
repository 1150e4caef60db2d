// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_native/native_operation.hpp"

#include <algorithm>

namespace lockstep::backends {

void NativeOperation::begin(const Slot& /*slot*/) {
  mark_begun();
  mark_advance();
  is_comparing_ = check_ != nullptr;
  if (is_comparing_) {
    comparison_.begin(*check_, call());
  } else {
    post_all();
  }
}

void NativeOperation::post_all() {
  requests_.clear();
  const std::int64_t width = size_of(collective_.out.dtype);
  if (collective_.kind == CollectiveKind::reduce_scatter) {
    staging_.resize(static_cast<std::size_t>(part() * (ranks_ + 1) * width));
  }
  const std::int64_t most = std::max<std::int64_t>(1, limit_.value / width);
  if (has_part_counts(collective_.kind)) {
    parts_.post(collective_, {most}, *operators_, requests_);
    if (requests_.empty()) complete();
    return;
  }
  const auto next_call = [&] {
    return MpiCall(communicator_, me_, ranks_, collective_, *operators_, &requests_.emplace_back(MPI_REQUEST_NULL));
  };
  if (collective_.kind == CollectiveKind::barrier) next_call().barrier();
  for (std::int64_t offset = 0; offset < part(); offset += most) {
    const MpiCall::Piece piece{offset, static_cast<int>(std::min(most, part() - offset))};
    if (collective_.kind == CollectiveKind::reduce_scatter) {
      reduce_scatter(next_call(), piece);
    } else {
      next_call().make(piece);
    }
  }
  if (requests_.empty()) complete();
}

bool NativeOperation::advance() {
  if (is_comparing_) {
    if (!comparison_.poll(collective_.kind, counts_)) return false;
    is_comparing_ = false;
    mark_advance();
    post_all();
    return true;
  }
  int complete_count = 0;
  for (MPI_Request& request : requests_) {
    int complete_now = 0;
    if (request != MPI_REQUEST_NULL) LOCKSTEP_MPI(MPI_Test(&request, &complete_now, MPI_STATUS_IGNORE));
    complete_count += complete_now;
  }
  if (complete_count > 0) mark_advance();
  const bool all = std::all_of(requests_.begin(), requests_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
  if (all) finish();
  return complete_count > 0;
}

/// MPI requires the pieces of all ranks to be contiguous and the result to be separate from the input, so both use
/// staging memory.
void NativeOperation::reduce_scatter(const MpiCall& call, const MpiCall::Piece& piece) {
  const std::int64_t width = size_of(collective_.out.dtype);
  const auto bytes = static_cast<std::size_t>(piece.count * width);
  std::byte* gathered = staging_.data() + piece.offset * ranks_ * width;
  std::byte* result = staging_.data() + (part() * ranks_ + piece.offset) * width;
  for (int rank = 0; rank < ranks_; ++rank) {
    const ConstBuffer from = slice(collective_.in, {part() * rank + piece.offset}, {piece.count});
    std::memcpy(gathered + static_cast<std::size_t>(rank) * bytes, from.data, bytes);
  }
  call.reduce_scatter(gathered, result, piece.count);
}

void NativeOperation::finish() {
  if (has_part_counts(collective_.kind)) parts_.finish(collective_);
  if (collective_.kind == CollectiveKind::reduce_scatter && part() > 0) {
    const std::int64_t bytes = collective_.out.bytes().value;
    std::memcpy(collective_.out.data, staging_.data() + bytes * ranks_, static_cast<std::size_t>(bytes));
  }
  fill_first(collective_, me_);
  complete();
}

}  // namespace lockstep::backends
