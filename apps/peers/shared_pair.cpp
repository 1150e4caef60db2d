// SPDX-License-Identifier: Apache-2.0
#include "apps/peers/shared_pair.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace lockstep::peers {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what + ": " + std::strerror(errno));
}

/// Opens the same anonymous file in both processes. Collective.
int open_shared(int rank, std::int64_t bytes) {
  std::array<int, 2> place = {getpid(), -1};
  if (rank == 0) {
    place[1] = memfd_create("lockstep-memory-limit", MFD_CLOEXEC);
    require(place[1] >= 0 && ftruncate(place[1], bytes) == 0, "cannot make memory to share");
  }
  MPI_Bcast(place.data(), 2, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) return place[1];
  const std::string path = "/proc/" + std::to_string(place[0]) + "/fd/" + std::to_string(place[1]);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(file >= 0, "cannot open the other rank's " + path);
  return file;
}

}  // namespace

SharedPair::SharedPair(Bytes each) {
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) throw std::runtime_error("this is for 2 ranks, not " + std::to_string(ranks));
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  stride_ = (each.value + page - 1) / page * page;
  const int file = open_shared(rank_, 2 * stride_);
  memory_ = mmap(nullptr, static_cast<std::size_t>(2 * stride_), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(memory_ != MAP_FAILED, "cannot map shared memory");
  std::memset(own(), 0, static_cast<std::size_t>(stride_));
  MPI_Barrier(MPI_COMM_WORLD);  // until here the file must stay open for the other rank
  close(file);
}

SharedPair::~SharedPair() { munmap(memory_, static_cast<std::size_t>(2 * stride_)); }

}  // namespace lockstep::peers
