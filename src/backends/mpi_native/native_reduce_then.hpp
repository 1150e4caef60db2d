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

/// The all-gathers of a communicator's reduce_thens. Each is posted when a sum has come and a function has returned,
/// which happens in another order on every rank, but MPI matches collectives by the order of the calls: so they have a
/// communicator to themselves, and wait for their turn.
struct OrderedGathers {
  MPI_Comm communicator;
  std::uint64_t turns_given = 0;  ///< when an operation begins, as many as it has pieces
  std::uint64_t posted = 0;
};

/// A reduce_then in pieces, each a reduce-scatter into slices of nearly equal length, the function, and an all-gather.
class NativeReduceThen {
 public:
  /// @param gathers  outlives the operation's use
  NativeReduceThen(Rank me, int ranks, OrderedGathers& gathers) : me_(me), ranks_(ranks), gathers_(&gathers) {}

  /// Posts all reduce-scatters. @param most  elements of a piece, at most. @throws Error{transport}
  void begin(MPI_Comm communicator, const Collective& collective, MPI_Op op, Count most);
  /// @param operation  whose function is called. @return whether anything moved. @throws Error
  bool advance(const HostOperation& operation);
  [[nodiscard]] bool done() const { return done_ == pieces_.size(); }

 private:
  enum class Stage { reducing, waiting_for_turn, gathering, done };
  struct Piece {
    std::int64_t offset;
    int count;
    std::size_t slices;  ///< index of the first one's length and offset
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
  std::vector<int> lengths_;  // of the slices of all pieces; MPI reads these until it is done with the piece
  std::vector<int> offsets_;  // in the piece
  std::int64_t longest_ = 0;  // slice
  std::vector<std::byte> sums_;
};

}  // namespace lockstep::backends
