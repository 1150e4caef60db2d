// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "backends/mpi_native/mpi_types.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// Operations whose parts differ in length as calls of the MPI library: one, or one for each part and piece where
/// counts and offsets are beyond what a call takes.
class NativeParts {
 public:
  NativeParts(MPI_Comm communicator, Rank me, int ranks) : communicator_(communicator), me_(me), ranks_(ranks) {}
  NativeParts(const NativeParts&) = delete;
  NativeParts& operator=(const NativeParts&) = delete;
  ~NativeParts() = default;

  /// @param collective  whose counts stay valid until `finish`
  /// @param most        elements of a part in one call
  void post(const Collective& collective, Count most, MPI_Op op, std::vector<MPI_Request>& requests);
  /// To be called when all are done: brings results to their places.
  void finish(const Collective& collective);

 private:
  void all_gather(const Collective& c, Count most, std::vector<MPI_Request>& requests);
  void reduce_scatter(const Collective& c, Count most, MPI_Op op, std::vector<MPI_Request>& requests);
  void all_to_all(const Collective& c, Count most, std::vector<MPI_Request>& requests);
  /// Whether one call can do it; then `lengths_` and `offsets_` are set.
  bool fits_one_call(const Collective& c, Count most);
  /// The parts of one side of an all_to_all_v as a type each, at their offsets.
  struct Side {
    std::vector<int> counts;  // 1, or 0 where there is nothing
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
  std::vector<std::byte> result_;  // of a reduce_scatter_v in place, which MPI does not have
  char nothing_ = 0;  // stands in for an empty buffer: MPICH refuses two that begin at one address, empty or not
};

}  // namespace lockstep::backends
