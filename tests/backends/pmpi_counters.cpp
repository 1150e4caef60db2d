// SPDX-License-Identifier: Apache-2.0
// These definitions use MPI's profiling interface: they replace the MPI library's functions, which remain available as
// PMPI_….
#include "backends/pmpi_counters.hpp"

#include <mpi.h>

namespace lockstep::pmpi {
namespace {

Counters counted;

void count_send(int count, MPI_Datatype type) {
  int width = 0;
  PMPI_Type_size(type, &width);
  ++counted.messages_sent;
  counted.bytes_sent += static_cast<std::int64_t>(count) * width;
}

void count_communicator() {
  if (counted.communicators++ == 0) counted.collectives_before_communicator = counted.collectives;
}

}  // namespace

void reset() { counted = {}; }
Counters counters() { return counted; }

}  // namespace lockstep::pmpi

using lockstep::pmpi::count_communicator;
using lockstep::pmpi::count_send;
using lockstep::pmpi::counted;

// NOLINTBEGIN(readability-function-size): MPI's functions have this many parameters
#define COUNTED_SEND(name, parameters, arguments) \
  int MPI_##name parameters {                     \
    count_send(count, type);                      \
    return PMPI_##name arguments;                 \
  }
#define COUNTED_RECEIVE(name, parameters, arguments) \
  int MPI_##name parameters {                        \
    ++counted.messages_received;                     \
    return PMPI_##name arguments;                    \
  }
#define COUNTED_COLLECTIVE(name, parameters, arguments) \
  int MPI_##name parameters {                           \
    ++counted.collectives;                              \
    return PMPI_##name arguments;                       \
  }
#define COUNTED_COMMUNICATOR(name, parameters, arguments) \
  int MPI_##name parameters {                             \
    count_communicator();                                 \
    return PMPI_##name arguments;                         \
  }

extern "C" {

COUNTED_SEND(Send, (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm c),
             (data, count, type, to, tag, c))
COUNTED_SEND(Ssend, (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm c),
             (data, count, type, to, tag, c))
COUNTED_SEND(Isend, (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm c, MPI_Request* r),
             (data, count, type, to, tag, c, r))
COUNTED_SEND(Issend, (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm c, MPI_Request* r),
             (data, count, type, to, tag, c, r))
COUNTED_SEND(Send_init, (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm c, MPI_Request* r),
             (data, count, type, to, tag, c, r))

COUNTED_RECEIVE(Recv, (void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm c, MPI_Status* s),
                (data, count, type, from, tag, c, s))
COUNTED_RECEIVE(Irecv, (void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm c, MPI_Request* r),
                (data, count, type, from, tag, c, r))
COUNTED_RECEIVE(Imrecv, (void* data, int count, MPI_Datatype type, MPI_Message* m, MPI_Request* r),
                (data, count, type, m, r))

COUNTED_COLLECTIVE(Barrier, (MPI_Comm c), (c))
COUNTED_COLLECTIVE(Ibarrier, (MPI_Comm c, MPI_Request* r), (c, r))
COUNTED_COLLECTIVE(Bcast, (void* data, int n, MPI_Datatype t, int root, MPI_Comm c), (data, n, t, root, c))
COUNTED_COLLECTIVE(Ibcast, (void* data, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r),
                   (data, n, t, root, c, r))
COUNTED_COLLECTIVE(Allreduce, (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
                   (in, out, n, t, op, c))
COUNTED_COLLECTIVE(Iallreduce,
                   (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c, MPI_Request* r),
                   (in, out, n, t, op, c, r))
COUNTED_COLLECTIVE(Reduce, (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c),
                   (in, out, n, t, op, root, c))
COUNTED_COLLECTIVE(Ireduce,
                   (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c, MPI_Request* r),
                   (in, out, n, t, op, root, c, r))
COUNTED_COLLECTIVE(Reduce_scatter, (const void* in, void* out, const int* n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
                   (in, out, n, t, op, c))
COUNTED_COLLECTIVE(Ireduce_scatter,
                   (const void* in, void* out, const int* n, MPI_Datatype t, MPI_Op op, MPI_Comm c, MPI_Request* r),
                   (in, out, n, t, op, c, r))
COUNTED_COLLECTIVE(Reduce_scatter_block, (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
                   (in, out, n, t, op, c))
COUNTED_COLLECTIVE(Ireduce_scatter_block,
                   (const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c, MPI_Request* r),
                   (in, out, n, t, op, c, r))
COUNTED_COLLECTIVE(Allgather, (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, MPI_Comm c),
                   (in, n, t, out, m, u, c))
COUNTED_COLLECTIVE(Iallgather,
                   (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, MPI_Comm c,
                    MPI_Request* r),
                   (in, n, t, out, m, u, c, r))
COUNTED_COLLECTIVE(Allgatherv,
                   (const void* in, int n, MPI_Datatype t, void* out, const int* m, const int* at, MPI_Datatype u,
                    MPI_Comm c),
                   (in, n, t, out, m, at, u, c))
COUNTED_COLLECTIVE(Iallgatherv,
                   (const void* in, int n, MPI_Datatype t, void* out, const int* m, const int* at, MPI_Datatype u,
                    MPI_Comm c, MPI_Request* r),
                   (in, n, t, out, m, at, u, c, r))
COUNTED_COLLECTIVE(Gather,
                   (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, int root, MPI_Comm c),
                   (in, n, t, out, m, u, root, c))
COUNTED_COLLECTIVE(Igather,
                   (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, int root, MPI_Comm c,
                    MPI_Request* r),
                   (in, n, t, out, m, u, root, c, r))
COUNTED_COLLECTIVE(Igatherv,
                   (const void* in, int n, MPI_Datatype t, void* out, const int* m, const int* at, MPI_Datatype u,
                    int root, MPI_Comm c, MPI_Request* r),
                   (in, n, t, out, m, at, u, root, c, r))
COUNTED_COLLECTIVE(Scatter,
                   (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, int root, MPI_Comm c),
                   (in, n, t, out, m, u, root, c))
COUNTED_COLLECTIVE(Iscatter,
                   (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, int root, MPI_Comm c,
                    MPI_Request* r),
                   (in, n, t, out, m, u, root, c, r))
COUNTED_COLLECTIVE(Alltoall, (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, MPI_Comm c),
                   (in, n, t, out, m, u, c))
COUNTED_COLLECTIVE(Ialltoall,
                   (const void* in, int n, MPI_Datatype t, void* out, int m, MPI_Datatype u, MPI_Comm c,
                    MPI_Request* r),
                   (in, n, t, out, m, u, c, r))

COUNTED_COMMUNICATOR(Comm_dup, (MPI_Comm c, MPI_Comm* made), (c, made))
COUNTED_COMMUNICATOR(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm* made), (c, color, key, made))
COUNTED_COMMUNICATOR(Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info info, MPI_Comm* made),
                     (c, type, key, info, made))

}  // extern "C"

// NOLINTEND(readability-function-size)
