// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_native/native_operation.hpp"

#include <algorithm>
#include <cstring>

#include "platform/mpi/mpi.hpp"

namespace lockstep::backends {

void NativeOperation::begin(const Turn& /*turn*/) {
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
    parts_.post(collective_, {most}, operators_->get(collective_.out.dtype, collective_.op), requests_);
    if (requests_.empty()) complete();
    return;
  }
  for (std::int64_t offset = 0; offset < part(); offset += most) {
    requests_.push_back(post({offset, static_cast<int>(std::min(most, part() - offset))}));
  }
  if (collective_.kind == CollectiveKind::barrier) {
    requests_.emplace_back();
    LOCKSTEP_MPI(MPI_Ibarrier(communicator_, &requests_.back()));
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

MPI_Request NativeOperation::post(const Piece& piece) {
  switch (collective_.kind) {
    case CollectiveKind::all_reduce: return all_reduce(piece);
    case CollectiveKind::all_gather: return all_gather(piece);
    case CollectiveKind::reduce_scatter: return reduce_scatter(piece);
    case CollectiveKind::reduce: return reduce(piece);
    case CollectiveKind::gather: return gather(piece);
    case CollectiveKind::scatter: return scatter(piece);
    case CollectiveKind::all_to_all: return all_to_all(piece);
    case CollectiveKind::broadcast: break;
    case CollectiveKind::send:
    case CollectiveKind::recv:
    case CollectiveKind::all_gather_v:
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::all_to_all_v:
    case CollectiveKind::barrier: return MPI_REQUEST_NULL;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  const Buffer out = slice(collective_.out, {piece.offset}, {piece.count});
  LOCKSTEP_MPI(MPI_Ibcast(out.data, piece.count, mpi_type(out.dtype), collective_.root.value, communicator_, &request));
  return request;
}

MPI_Request NativeOperation::all_reduce(const Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const ConstBuffer in = slice(collective_.in, {piece.offset}, {piece.count});
  const Buffer out = slice(collective_.out, {piece.offset}, {piece.count});
  const void* send = in.data == out.data ? MPI_IN_PLACE : in.data;
  LOCKSTEP_MPI(MPI_Iallreduce(send, out.data, piece.count, mpi_type(out.dtype),
                              operators_->get(out.dtype, collective_.op), communicator_, &request));
  return request;
}

MPI_Request NativeOperation::reduce(const Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const ConstBuffer in = slice(collective_.in, {piece.offset}, {piece.count});
  const Rank root = collective_.root;
  // Other ranks than the root have no output, so there is no pointer to compute an offset from.
  void* result = me_ == root ? slice(collective_.out, {piece.offset}, {piece.count}).data : nullptr;
  const void* send = in.data == result ? MPI_IN_PLACE : in.data;
  LOCKSTEP_MPI(MPI_Ireduce(send, result, piece.count, mpi_type(in.dtype), operators_->get(in.dtype, collective_.op),
                           root.value, communicator_, &request));
  return request;
}

/// Returns a type for one rank's piece with the extent of a whole part, because a rank's piece is `part` elements
/// behind that of the previous rank. The caller frees it; MPI keeps it until the operations that use it are done.
MPI_Datatype NativeOperation::spread(const Piece& piece) const {
  MPI_Datatype contiguous = MPI_DATATYPE_NULL;
  MPI_Datatype spread = MPI_DATATYPE_NULL;
  LOCKSTEP_MPI(MPI_Type_contiguous(piece.count, mpi_type(collective_.in.dtype), &contiguous));
  LOCKSTEP_MPI(MPI_Type_create_resized(contiguous, 0, part() * size_of(collective_.in.dtype), &spread));
  LOCKSTEP_MPI(MPI_Type_commit(&spread));
  LOCKSTEP_MPI(MPI_Type_free(&contiguous));
  return spread;
}

MPI_Request NativeOperation::all_gather(const Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const ConstBuffer in = slice(collective_.in, {piece.offset}, {piece.count});
  const Buffer out = slice(collective_.out, {piece.offset}, {0});
  const bool in_place = in.data == slice(out, {part() * me_.value}, {0}).data;
  MPI_Datatype type = spread(piece);
  LOCKSTEP_MPI(MPI_Iallgather(in_place ? MPI_IN_PLACE : in.data, piece.count, mpi_type(out.dtype), out.data, 1, type,
                              communicator_, &request));
  LOCKSTEP_MPI(MPI_Type_free(&type));
  return request;
}

/// Other ranks than the root have no output, so there is no pointer to compute an offset from.
MPI_Request NativeOperation::gather(const Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const ConstBuffer in = slice(collective_.in, {piece.offset}, {piece.count});
  const bool is_root = me_ == collective_.root;
  const Buffer out = is_root ? slice(collective_.out, {piece.offset}, {0}) : Buffer{};
  const bool in_place = is_root && in.data == slice(out, {part() * me_.value}, {0}).data;
  MPI_Datatype type = spread(piece);
  LOCKSTEP_MPI(MPI_Igather(in_place ? MPI_IN_PLACE : in.data, piece.count, mpi_type(in.dtype), out.data, 1, type,
                           collective_.root.value, communicator_, &request));
  LOCKSTEP_MPI(MPI_Type_free(&type));
  return request;
}

MPI_Request NativeOperation::scatter(const Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const Buffer out = slice(collective_.out, {piece.offset}, {piece.count});
  const bool is_root = me_ == collective_.root;
  const ConstBuffer in = is_root ? slice(collective_.in, {piece.offset}, {0}) : ConstBuffer{};
  const bool in_place = is_root && out.data == slice(in, {part() * me_.value}, {0}).data;
  MPI_Datatype type = spread(piece);
  LOCKSTEP_MPI(MPI_Iscatter(in.data, 1, type, in_place ? MPI_IN_PLACE : out.data, piece.count, mpi_type(out.dtype),
                            collective_.root.value, communicator_, &request));
  LOCKSTEP_MPI(MPI_Type_free(&type));
  return request;
}

MPI_Request NativeOperation::all_to_all(const Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const ConstBuffer in = slice(collective_.in, {piece.offset}, {0});
  const Buffer out = slice(collective_.out, {piece.offset}, {0});
  MPI_Datatype type = spread(piece);
  LOCKSTEP_MPI(MPI_Ialltoall(in.data, 1, type, out.data, 1, type, communicator_, &request));
  LOCKSTEP_MPI(MPI_Type_free(&type));
  return request;
}

/// MPI requires the pieces of all ranks to be contiguous and the result to be separate from the input, so both use
/// staging memory.
MPI_Request NativeOperation::reduce_scatter(const Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const std::int64_t width = size_of(collective_.out.dtype);
  const auto bytes = static_cast<std::size_t>(piece.count * width);
  std::byte* gathered = staging_.data() + piece.offset * ranks_ * width;
  std::byte* result = staging_.data() + (part() * ranks_ + piece.offset) * width;
  for (int rank = 0; rank < ranks_; ++rank) {
    const ConstBuffer from = slice(collective_.in, {part() * rank + piece.offset}, {piece.count});
    std::memcpy(gathered + static_cast<std::size_t>(rank) * bytes, from.data, bytes);
  }
  const DType dtype = collective_.out.dtype;
  LOCKSTEP_MPI(MPI_Ireduce_scatter_block(gathered, result, piece.count, mpi_type(dtype),
                                         operators_->get(dtype, collective_.op), communicator_, &request));
  return request;
}

void NativeOperation::finish() {
  if (has_part_counts(collective_.kind)) parts_.finish(collective_);
  if (collective_.kind == CollectiveKind::reduce_scatter && part() > 0) {
    const std::int64_t bytes = collective_.out.bytes().value;
    std::memcpy(collective_.out.data, staging_.data() + bytes * ranks_, static_cast<std::size_t>(bytes));
  }
  complete();
}

}  // namespace lockstep::backends
