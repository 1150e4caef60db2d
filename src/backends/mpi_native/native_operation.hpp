// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/mpi_native/mpi_call.hpp"
#include "base/exchange.hpp"
#include "comm/call_signature.hpp"
#include "comm/collective_parts.hpp"
#include "comm/host_operation.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// Runs operations whose parts differ in length as calls of the MPI library: one call or, if counts or offsets exceed
/// the range of a call, one for each piece of each part.
class NativeParts {
 public:
  NativeParts(MPI_Comm communicator, Rank me, int ranks) : communicator_(communicator), me_(me), ranks_(ranks) {}
  NativeParts(const NativeParts&) = delete;
  NativeParts& operator=(const NativeParts&) = delete;
  ~NativeParts() = default;

  /// @param collective  its counts stay valid until `finish`
  /// @param most        maximum number of elements of a part in one call
  void post(const Collective& collective, Count most, MpiOperators& operators, std::vector<MPI_Request>& requests);
  /// Moves the results to their places and frees the types. It is called when all requests are done.
  void finish(const Collective& collective);

 private:
  void all_gather(const Collective& c, Count most, MpiOperators& operators, std::vector<MPI_Request>& requests);
  void reduce_scatter(const Collective& c, Count most, MpiOperators& operators, std::vector<MPI_Request>& requests);
  void all_to_all(const Collective& c, Count most, std::vector<MPI_Request>& requests);
  /// Returns whether one call is enough; then `lengths_` and `offsets_` are set.
  bool fits_one_call(const Collective& c, Count most);
  /// The parts of one side of an all_to_all_v, as one type for each part that includes its offset.
  struct Side {
    std::vector<int> counts;  // 1, or 0 for an empty part
    std::vector<MPI_Datatype> types;
  };
  void describe(Side& side, std::span<const Count> parts, DType dtype, Count most) const;

  MPI_Comm communicator_;
  Rank me_;
  int ranks_;
  // MPI reads these until the operation is done.
  std::vector<int> lengths_;
  std::vector<int> offsets_;
  std::vector<int> zeros_;
  Side sent_;
  Side received_;
  std::vector<std::byte> result_;  // result of a reduce_scatter_v in place, which MPI does not support
  // The address of empty buffers. MPICH refuses two buffers at the same address, even if they are empty.
  char empty_buffer_ = 0;
};

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
  void begin(const Slot& slot) override;
  bool advance() override;

 private:
  void post_all();
  void reduce_scatter(const MpiCall& call, const MpiCall::Piece& piece);
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
