// SPDX-License-Identifier: Apache-2.0
// An MPI_Test that waits. Simulated time stands still while a rank computes, so a rank that polls would poll forever.
// SMPI therefore lets a fixed time pass in each MPI_Test, which is neither exact nor fast. In this file, after a whole
// round of unsuccessful tests, one for each message under way, the next test waits until the first message has arrived.
// For a rank that only drives its messages, as the executor does in Work::wait, this is equivalent and costs no time.
// These functions replace the library's, which remain available as PMPI_….
#include <mpi.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

namespace {

struct Pending;

/// The messages under way of one simulated rank. All ranks are in one process.
struct RankState {
  std::vector<MPI_Request> requests;
  std::vector<Pending*> owners;  ///< the owner of each of `requests`
  std::size_t fruitless = 0;     ///< number of tests since the last arrival
};

/// The object that a program holds instead of a request, because SMPI would free the request before the program tests
/// it.
struct Pending {
  RankState* rank;
  bool done = false;
  MPI_Status status{};
};

RankState& my_state() {
  static std::map<int, RankState> states;
  int me = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &me);
  return states[me];
}

MPI_Request hold(MPI_Request request) {
  RankState& rank = my_state();
  auto pending = std::make_unique<Pending>(Pending{.rank = &rank});
  rank.requests.push_back(request);
  rank.owners.push_back(pending.get());
  return reinterpret_cast<MPI_Request>(pending.release());  // MPI_Test converts it back
}

int wait_for_one(RankState& rank) {
  int index = MPI_UNDEFINED;
  MPI_Status status;
  const int code = PMPI_Waitany(static_cast<int>(rank.requests.size()), rank.requests.data(), &index, &status);
  if (code != MPI_SUCCESS) return code;
  const auto arrived = static_cast<std::size_t>(index);
  rank.owners[arrived]->done = true;
  rank.owners[arrived]->status = status;
  rank.requests[arrived] = rank.requests.back();
  rank.requests.pop_back();
  rank.owners[arrived] = rank.owners.back();
  rank.owners.pop_back();
  rank.fruitless = 0;
  return MPI_SUCCESS;
}

}  // namespace

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  const int code = PMPI_Isend(data, count, type, peer, tag, comm, request);
  if (code == MPI_SUCCESS) *request = hold(*request);
  return code;
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  const int code = PMPI_Irecv(data, count, type, peer, tag, comm, request);
  if (code == MPI_SUCCESS) *request = hold(*request);
  return code;
}

int MPI_Test(MPI_Request* request, int* complete, MPI_Status* status) {
  auto* const pending = reinterpret_cast<Pending*>(*request);
  RankState& rank = *pending->rank;
  *complete = 0;
  if (!pending->done && ++rank.fruitless > rank.requests.size()) {
    if (const int code = wait_for_one(rank); code != MPI_SUCCESS) return code;
  }
  if (!pending->done) return MPI_SUCCESS;
  *complete = 1;
  *request = MPI_REQUEST_NULL;
  rank.fruitless = 0;
  if (status != MPI_STATUS_IGNORE) *status = pending->status;
  delete pending;
  return MPI_SUCCESS;
}
}
