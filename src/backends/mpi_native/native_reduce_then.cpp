// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_native/native_reduce_then.hpp"

#include <algorithm>
#include <cstring>

#include "backends/mpi_native/mpi_types.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep::backends {

void NativeReduceThen::begin(MPI_Comm communicator, const Collective& collective, MPI_Op op, Count most) {
  in_ = collective.in;
  out_ = collective.out;
  done_ = 0;
  pieces_.clear();
  lengths_.clear();
  offsets_.clear();
  for (std::int64_t offset = 0; offset < in_.count.value; offset += most.value) {
    pieces_.push_back({.offset = offset,
                       .count = static_cast<int>(std::min(most.value, in_.count.value - offset)),
                       .slices = lengths_.size(),
                       .turn = gathers_->turns_given++});
    cut(pieces_.back());
  }
  if (pieces_.empty()) return;
  longest_ = lengths_.front();
  sums_.resize(pieces_.size() * static_cast<std::size_t>(longest_ * size_of(in_.dtype)));
  for (Piece& piece : pieces_) {
    LOCKSTEP_MPI(MPI_Ireduce_scatter(slice(in_, {piece.offset}, {piece.count}).data, sum_of(piece),
                                     lengths_.data() + piece.slices, mpi_type(in_.dtype), op, communicator,
                                     &piece.request));
  }
}

/// Divides a piece into slices. If the count is not divisible, the first slices are longer by one element.
void NativeReduceThen::cut(Piece& piece) {
  int offset = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    lengths_.push_back(piece.count / ranks_ + (rank < piece.count % ranks_ ? 1 : 0));
    offsets_.push_back(offset);
    offset += lengths_.back();
  }
}

bool NativeReduceThen::advance(const HostOperation& operation) {
  bool moved = false;
  for (Piece& piece : pieces_) moved |= advance(piece, operation);
  return moved;
}

bool NativeReduceThen::advance(Piece& piece, const HostOperation& operation) {
  if (piece.stage == Stage::done) return false;
  if (piece.stage == Stage::waiting_for_turn) {
    if (gathers_->posted != piece.turn) return false;
    post_gather(piece);
    return true;
  }
  int complete = 0;
  LOCKSTEP_MPI(MPI_Test(&piece.request, &complete, MPI_STATUS_IGNORE));
  if (complete == 0) return false;
  if (piece.stage == Stage::reducing) {
    apply(piece, operation);
    piece.stage = Stage::waiting_for_turn;
  } else {
    piece.stage = Stage::done;
    ++done_;
  }
  return true;
}

void NativeReduceThen::apply(const Piece& piece, const HostOperation& operation) {
  const Count length{lengths_[own_slice(piece)]};
  if (length.value == 0) return;
  const Count offset{piece.offset + offsets_[own_slice(piece)]};
  const Buffer out = slice(out_, offset, length);
  ConstBuffer sum(sum_of(piece), length, out.dtype);
  if (in_.data == out_.data) {
    std::memcpy(out.data, sum.data, static_cast<std::size_t>(sum.bytes().value));
    sum = out;
  }
  operation.apply(sum, out, offset);
}

void NativeReduceThen::post_gather(Piece& piece) {
  const MPI_Datatype type = mpi_type(out_.dtype);
  LOCKSTEP_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, type, slice(out_, {piece.offset}, {piece.count}).data,
                               lengths_.data() + piece.slices, offsets_.data() + piece.slices, type,
                               gathers_->communicator, &piece.request));
  ++gathers_->posted;
  piece.stage = Stage::gathering;
}

std::byte* NativeReduceThen::sum_of(const Piece& piece) {
  const auto index = static_cast<std::int64_t>(piece.slices) / ranks_;
  return sums_.data() + index * longest_ * size_of(in_.dtype);
}

}  // namespace lockstep::backends
