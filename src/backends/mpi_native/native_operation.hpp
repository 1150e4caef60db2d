// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/mpi_native/mpi_types.hpp"
#include "backends/mpi_native/native_parts.hpp"
#include "comm/call_signature.hpp"
#include "comm/collective_parts.hpp"
#include "comm/host_operation.hpp"
#include "lockstep/base/buffer.hpp"
#include "platform/mpi/make_node_memory.hpp"

namespace lockstep::backends {

/// One collective as calls of the MPI library, one for each piece of at most `limit` bytes per rank. All pieces are
/// posted at once: MPI matches collectives by the order of the calls, which must be the same on all ranks.
class NativeOperation : public HostOperation {
 public:
  /// @param operators  outlive the operation's use
  /// @param check      exchange by which all ranks compare their calls before anything else; null: they do not compare
  NativeOperation(MPI_Comm communicator, Rank me, int ranks, Bytes limit, MpiOperators& operators, Exchange* check)
      : communicator_(communicator),
        me_(me),
        ranks_(ranks),
        limit_(limit),
        operators_(&operators),
        check_(check),
        parts_(communicator, me, ranks) {}

  void prepare(const Collective& collective) {
    collective_ = collective;
    counts_.keep(collective_);
    set_call(signature_of(collective));
  }
  void begin(const Turn& turn) override;
  bool advance() override;

 private:
  /// A piece: elements `offset` … `offset + count` of every rank's part.
  struct Piece {
    std::int64_t offset;
    int count;
  };
  void post_all();
  MPI_Request post(const Piece& piece);
  MPI_Request all_reduce(const Piece& piece);
  MPI_Request all_gather(const Piece& piece);
  MPI_Request reduce_scatter(const Piece& piece);
  MPI_Request reduce(const Piece& piece);
  MPI_Request gather(const Piece& piece);
  MPI_Request scatter(const Piece& piece);
  MPI_Request all_to_all(const Piece& piece);
  [[nodiscard]] MPI_Datatype spread(const Piece& piece) const;
  void finish();
  [[nodiscard]] std::string_view algorithm() const override { return "mpi"; }
  [[nodiscard]] std::int64_t part() const { return part_of(collective_, ranks_).value; }

  MPI_Comm communicator_;
  Rank me_;
  int ranks_;
  Bytes limit_;
  MpiOperators* operators_;
  Exchange* check_;
  bool is_comparing_ = false;
  CallCheck comparison_;
  Collective collective_;
  KeptCounts counts_;
  NativeParts parts_;
  std::vector<MPI_Request> requests_;
  std::vector<std::byte> staging_;  // reduce_scatter: the pieces' inputs one after another, then the result
};

}  // namespace lockstep::backends
