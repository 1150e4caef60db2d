// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "backends/mpi_native/mpi_types.hpp"
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
  void post(const Collective& collective, Count most, MPI_Op op, std::vector<MPI_Request>& requests);
  /// Moves the results to their places and frees the types. It is called when all requests are done.
  void finish(const Collective& collective);

 private:
  void all_gather(const Collective& c, Count most, std::vector<MPI_Request>& requests);
  void reduce_scatter(const Collective& c, Count most, MPI_Op op, std::vector<MPI_Request>& requests);
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
  char nothing_ = 0;
};

}  // namespace lockstep::backends
