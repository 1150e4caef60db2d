// SPDX-License-Identifier: Apache-2.0
#include <climits>
#include <span>
#include <string>
#include <vector>

#include "backends/mpi_native.hpp"
#include "backends/mpi_native/mpi_types.hpp"
#include "comm/collective_parts.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/mpi.hpp"

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

void all_reduce(MPI_Comm comm, int count, const Collective& c, MpiOperators& operators) {
  const void* in = c.in.data == c.out.data ? MPI_IN_PLACE : c.in.data;
  LOCKSTEP_MPI(MPI_Allreduce(in, c.out.data, count, mpi_type(c.out.dtype), operators.get(c.out.dtype, c.op), comm));
}

void all_gather(MPI_Comm comm, Rank me, int count, const Collective& c) {
  const bool in_place = c.in.data == slice(c.out, {me.value * c.in.count.value}, c.in.count).data;
  const MPI_Datatype type = mpi_type(c.out.dtype);
  LOCKSTEP_MPI(MPI_Allgather(in_place ? MPI_IN_PLACE : c.in.data, count, type, c.out.data, count, type, comm));
}

void reduce_scatter(MPI_Comm comm, Rank me, int count, const Collective& c, MpiOperators& operators) {
  if (c.out.count > 0 && c.out.data == slice(c.in, me.value * c.out.count, c.out.count).data) {
    refuse(c, "MPI's reduce_scatter in place means something else; give it an output of its own");
  }
  LOCKSTEP_MPI(MPI_Reduce_scatter_block(c.in.data, c.out.data, count, mpi_type(c.out.dtype),
                                        operators.get(c.out.dtype, c.op), comm));
}

void reduce(MPI_Comm comm, Rank me, int count, const Collective& c, MpiOperators& operators) {
  const bool in_place = me == c.root && c.in.data == c.out.data;
  void* result = me == c.root ? c.out.data : nullptr;
  LOCKSTEP_MPI(MPI_Reduce(in_place ? MPI_IN_PLACE : c.in.data, result, count, mpi_type(c.in.dtype),
                          operators.get(c.in.dtype, c.op), c.root.value, comm));
}

void gather(MPI_Comm comm, Rank me, int count, const Collective& c) {
  const bool is_root = me == c.root;
  const bool in_place = is_root && c.in.data == slice(c.out, {me.value * c.in.count.value}, c.in.count).data;
  const MPI_Datatype type = mpi_type(c.in.dtype);
  LOCKSTEP_MPI(MPI_Gather(in_place ? MPI_IN_PLACE : c.in.data, count, type, is_root ? c.out.data : nullptr, count, type,
                          c.root.value, comm));
}

void scatter(MPI_Comm comm, Rank me, int count, const Collective& c) {
  const bool is_root = me == c.root;
  const bool in_place = is_root && c.out.data == slice(c.in, me.value * c.out.count, c.out.count).data;
  const MPI_Datatype type = mpi_type(c.out.dtype);
  LOCKSTEP_MPI(MPI_Scatter(is_root ? c.in.data : nullptr, count, type, in_place ? MPI_IN_PLACE : c.out.data, count,
                           type, c.root.value, comm));
}

void all_to_all(MPI_Comm comm, int count, const Collective& c) {
  const MPI_Datatype type = mpi_type(c.out.dtype);
  LOCKSTEP_MPI(MPI_Alltoall(c.in.data, count, type, c.out.data, count, type, comm));
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

void all_gather_v(MPI_Comm comm, Rank me, const Collective& c) {
  const Ints parts(c, c.parts);
  const bool in_place = c.in.data == slice(c.out, offset_of_part(c.parts, me), c.in.count).data;
  const MPI_Datatype type = mpi_type(c.out.dtype);
  LOCKSTEP_MPI(MPI_Allgatherv(in_place ? MPI_IN_PLACE : c.in.data, static_cast<int>(c.in.count.value), type, c.out.data,
                              parts.lengths.data(), parts.offsets.data(), type, comm));
}

void reduce_scatter_v(MPI_Comm comm, Rank me, const Collective& c, MpiOperators& operators) {
  if (c.out.count > 0 && c.out.data == slice(c.in, offset_of_part(c.parts, me), c.out.count).data) {
    refuse(c, "MPI's reduce_scatter in place means something else; give it an output of its own");
  }
  const Ints parts(c, c.parts);
  LOCKSTEP_MPI(MPI_Reduce_scatter(c.in.data, c.out.data, parts.lengths.data(), mpi_type(c.out.dtype),
                                  operators.get(c.out.dtype, c.op), comm));
}

void all_to_all_v(MPI_Comm comm, const Collective& c) {
  const Ints sent(c, c.parts);
  const Ints received(c, c.received);
  const MPI_Datatype type = mpi_type(c.out.dtype);
  LOCKSTEP_MPI(MPI_Alltoallv(c.in.data, sent.lengths.data(), sent.offsets.data(), type, c.out.data,
                             received.lengths.data(), received.offsets.data(), type, comm));
}

}  // namespace

void mpi_blocking(const MpiGroup& group, const Collective& collective) {
  MPI_Comm comm = communicator(group);
  const int count = int_count(collective, group.size());
  MpiOperators operators;
  switch (collective.kind) {
    case CollectiveKind::all_reduce: all_reduce(comm, count, collective, operators); break;
    case CollectiveKind::all_gather: all_gather(comm, group.rank(), count, collective); break;
    case CollectiveKind::reduce_scatter: reduce_scatter(comm, group.rank(), count, collective, operators); break;
    case CollectiveKind::reduce: reduce(comm, group.rank(), count, collective, operators); break;
    case CollectiveKind::gather: gather(comm, group.rank(), count, collective); break;
    case CollectiveKind::scatter: scatter(comm, group.rank(), count, collective); break;
    case CollectiveKind::all_to_all: all_to_all(comm, count, collective); break;
    case CollectiveKind::all_gather_v: all_gather_v(comm, group.rank(), collective); break;
    case CollectiveKind::reduce_scatter_v: reduce_scatter_v(comm, group.rank(), collective, operators); break;
    case CollectiveKind::all_to_all_v: all_to_all_v(comm, collective); break;
    case CollectiveKind::barrier: LOCKSTEP_MPI(MPI_Barrier(comm)); break;
    case CollectiveKind::send:
    case CollectiveKind::recv: refuse(collective, "one rank alone may not wait for a message"); break;
    case CollectiveKind::broadcast:
      LOCKSTEP_MPI(MPI_Bcast(collective.out.data, count, mpi_type(collective.out.dtype), collective.root.value, comm));
      break;
  }
  operators.close();
}

}  // namespace lockstep::backends
