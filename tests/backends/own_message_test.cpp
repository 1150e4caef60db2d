// SPDX-License-Identifier: Apache-2.0
// A message of the program's own progresses while lockstep waits in shared memory, where it does not need MPI.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/make_agreed.hpp"
#include "lockstep/mpi.hpp"

namespace {
int probes = 0;
}

extern "C" int MPI_Iprobe(int source, int tag, MPI_Comm communicator, int* found, MPI_Status* status) {
  ++probes;
  return PMPI_Iprobe(source, tag, communicator, found, status);
}

namespace lockstep::backends {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int repetitions = 9;
constexpr int attempts = 5;

int world_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// The parameter is the name of a wait policy.
class OwnMessage : public testing::TestWithParam<const char*> {
 protected:
  OwnMessage() : message_(std::size_t{16} << 20) {}

  /// Ranks 0 and 1 send a message from the first to the second, and call `meanwhile` before they wait for it; rank 2
  /// only calls `meanwhile`. @return the median time in MPI_Wait, of the slower of the two ranks; the same on all
  Seconds wait_after(const std::function<void()>& meanwhile) {
    std::vector<double> times;
    for (int i = 0; i < repetitions; ++i) {
      MPI_Request request = MPI_REQUEST_NULL;
      const auto bytes = static_cast<int>(message_.size());
      MPI_Barrier(MPI_COMM_WORLD);
      if (world_rank() == 0) MPI_Isend(message_.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
      if (world_rank() == 1) MPI_Irecv(message_.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
      meanwhile();
      const Clock::time_point begin = Clock::now();
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      const double mine = Seconds(Clock::now() - begin).count();
      double longest = 0;
      MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      times.push_back(longest);
    }
    std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
    return Seconds(times[repetitions / 2]);
  }

  std::vector<char> message_;
};
INSTANTIATE_TEST_SUITE_P(Waits, OwnMessage, testing::Values("spin", "yield", "sleep"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(OwnMessage, TakesAtMostTwiceItsTimeBesideAWait) {
  RankSet group = from_mpi(MPI_COMM_WORLD);
  Progress progress(make_wait_policy(GetParam(), 0));
  const auto communicator = make_agreed(group, progress, {});
  communicator->barrier().wait();
  // The result is the same on all ranks. Other processes only add time, so one good attempt is sufficient proof.
  Seconds alone{};
  Seconds left{};
  for (int attempt = 0; attempt < attempts; ++attempt) {
    alone = wait_after([] {});
    left = wait_after([&] {
      if (world_rank() == 2) std::this_thread::sleep_for(7 * alone / 4);
      communicator->barrier().wait();
    });
    if (world_rank() == 0)
      std::printf("16 MiB: %.1f ms alone, %.1f ms left after 7/4 of that\n", 1e3 * alone.count(), 1e3 * left.count());
    if (left < alone / 4) break;
  }
  EXPECT_LT(left, alone / 4);
  communicator->close();
  group.close();
}

TEST_P(OwnMessage, IsLookedAfterEveryMillisecondOrSo) {
  RankSet group = from_mpi(MPI_COMM_WORLD);
  Progress progress(make_wait_policy(GetParam(), 0));
  const auto communicator = make_agreed(group, progress, {});
  communicator->barrier().wait();
  probes = 0;
  if (world_rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  communicator->barrier().wait();
  if (world_rank() != 2) {
    EXPECT_GT(probes, 50);
  }
  communicator->close();
  group.close();
}

}  // namespace
}  // namespace lockstep::backends

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return failed;
}
