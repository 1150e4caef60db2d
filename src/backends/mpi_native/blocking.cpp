// SPDX-License-Identifier: Apache-2.0
#include <climits>

#include "backends/mpi_native/mpi_call.hpp"
#include "backends/mpi_native/mpi_native.hpp"

namespace lockstep::backends {
namespace {

[[noreturn]] void refuse(const Collective& collective, const std::string& why) {
  throw Error(ErrorCode::unsupported, why,
              {.operation = std::string(name(collective.kind)), .bytes = collective.out.bytes().value});
}

/// Returns the elements of the buffer, or of each part.
int int_count(const Collective& collective, int ranks) {
  const std::int64_t count = part_of(collective, ranks).value;
  if (count > INT_MAX) {
    refuse(collective, std::to_string(count) + " elements are more than one blocking MPI call can take; measure fewer");
  }
  return static_cast<int>(count);
}

/// Refuses a reduce_scatter in place. @param begin  of this rank's part of the input
void* separate_output(const Collective& c, Count begin) {
  if (c.out.count > 0 && c.out.data == slice(c.in, begin, c.out.count).data)
    refuse(c, "MPI's reduce_scatter in place means something else; give it an output of its own");
  return c.out.data;
}

/// Counts and offsets as MPI takes them.
struct Ints {
  explicit Ints(const Collective& c, std::span<const Count> counts) {
    std::int64_t offset = 0;
    for (const Count count : counts) {
      if (offset + count.value > INT_MAX) refuse(c, "there are more elements than one blocking MPI call can take");
      lengths.push_back(static_cast<int>(count.value));
      offsets.push_back(static_cast<int>(offset));
      offset += count.value;
    }
  }
  std::vector<int> lengths;
  std::vector<int> offsets;
};

void all_to_all_v(MPI_Comm comm, const Collective& c) {
  const Ints sent(c, c.parts);
  const Ints received(c, c.received);
  const MPI_Datatype type = mpi_type(c.out.dtype);
  LOCKSTEP_MPI(MPI_Alltoallv(c.in.data, sent.lengths.data(), sent.offsets.data(), type, c.out.data,
                             received.lengths.data(), received.offsets.data(), type, comm));
}

}  // namespace

void mpi_blocking(const RankSet& group, const Collective& c) {
  const int count = int_count(c, group.size());
  const Rank me = group.rank();
  MpiOperators operators;
  const MpiCall call(communicator(group), me, group.size(), c, operators);
  switch (c.kind) {
    case CollectiveKind::barrier: call.barrier(); break;
    case CollectiveKind::reduce_scatter:
      call.reduce_scatter(c.in.data, separate_output(c, me.value * c.out.count), count);
      break;
    case CollectiveKind::reduce_scatter_v: {
      void* const out = separate_output(c, offset_of_part(c.parts, me));
      call.reduce_scatter_v(out, Ints(c, c.parts).lengths);
      break;
    }
    case CollectiveKind::all_gather_v: {
      const Ints parts(c, c.parts);
      const bool in_place = c.in.data == slice(c.out, offset_of_part(c.parts, me), c.in.count).data;
      call.all_gather_v(in_place ? MPI_IN_PLACE : c.in.data, parts.lengths, parts.offsets);
      break;
    }
    case CollectiveKind::all_to_all_v: all_to_all_v(communicator(group), c); break;
    case CollectiveKind::send:
    case CollectiveKind::recv: refuse(c, "one rank alone may not wait for a message"); break;
    default: call.make({0, count});
  }
  fill_first(c, me);
  operators.close();
}

}  // namespace lockstep::backends
