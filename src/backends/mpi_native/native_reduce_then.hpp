// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/host_operation.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// The all-gathers of a communicator's reduce_thens. Each is posted when a sum is complete and its function has
/// returned, which happens in a different order on every rank, whereas MPI matches collectives by the order of the
/// calls. They therefore have a communicator of their own, and wait for their turn.
struct OrderedGathers {
  MPI_Comm communicator;
  std::uint64_t turns_given = 0;  ///< an operation takes one turn for each of its pieces when it begins
  std::uint64_t posted = 0;
};

/// A reduce_then in pieces, each a reduce-scatter into slices of nearly equal length, the function, and an all-gather.
class NativeReduceThen {
 public:
  /// @param gathers  outlives the operation's use
  NativeReduceThen(Rank me, int ranks, OrderedGathers& gathers) : me_(me), ranks_(ranks), gathers_(&gathers) {}

  /// Posts all reduce-scatters. @param most  maximum number of elements of a piece. @throws Error{transport}
  void begin(MPI_Comm communicator, const Collective& collective, MPI_Op op, Count most);
  /// @param operation  provides the function to call. @return whether anything advanced. @throws Error
  bool advance(const HostOperation& operation);
  [[nodiscard]] bool done() const { return done_ == pieces_.size(); }

 private:
  enum class Stage { reducing, waiting_for_turn, gathering, done };
  struct Piece {
    std::int64_t offset;
    int count;
    std::size_t slices;  ///< index of the first slice in lengths_ and offsets_
    std::uint64_t turn;
    Stage stage = Stage::reducing;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void cut(Piece& piece);
  bool advance(Piece& piece, const HostOperation& operation);
  void apply(const Piece& piece, const HostOperation& operation);
  void post_gather(Piece& piece);
  [[nodiscard]] std::byte* sum_of(const Piece& piece);
  [[nodiscard]] std::size_t own_slice(const Piece& piece) const {
    return piece.slices + static_cast<std::size_t>(me_.value);
  }

  Rank me_;
  int ranks_;
  OrderedGathers* gathers_;
  ConstBuffer in_;
  Buffer out_;
  std::vector<Piece> pieces_;
  std::size_t done_ = 0;
  std::vector<int> lengths_;  // lengths of the slices of all pieces; MPI reads them until the piece is done
  std::vector<int> offsets_;  // offsets within the piece
  std::int64_t longest_ = 0;  // length of the longest slice
  std::vector<std::byte> sums_;
};

}  // namespace lockstep::backends
