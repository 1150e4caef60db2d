// SPDX-License-Identifier: Apache-2.0
// Tests a job that is stopped as a whole and continues later, as with a batch system that lends its machines to others
// (SIGSTOP and SIGCONT). The time in between does not count as waiting.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "backends/make_agreed.hpp"
#include "lockstep/mpi.hpp"

namespace lockstep::backends {
namespace {

constexpr std::chrono::seconds longest_silence{1};
constexpr std::chrono::milliseconds until_stopped{200};
constexpr std::chrono::milliseconds stopped_for{1500};

/// Forks a process that stops these two and lets them continue. Only it runs in between.
pid_t suspend(const std::array<pid_t, 2>& ranks) {
  const pid_t child = fork();
  if (child != 0) return child;
  std::this_thread::sleep_for(until_stopped);
  for (const pid_t rank : ranks) kill(rank, SIGSTOP);
  std::this_thread::sleep_for(stopped_for);
  for (const pid_t rank : ranks) kill(rank, SIGCONT);
  _exit(EXIT_SUCCESS);
}

/// The parameter is the name of a wait policy.
class Suspension : public testing::TestWithParam<const char*> {};

TEST_P(Suspension, IsNotWaitedFor) {
  RankSet group = from_mpi(MPI_COMM_WORLD);
  Progress progress(make_wait_policy(GetParam(), 0));
  const auto communicator = make_agreed(group, progress, {.plan = {.deadline = longest_silence}});
  std::array<pid_t, 2> ranks{};
  const pid_t own = getpid();
  MPI_Allgather(&own, sizeof own, MPI_BYTE, ranks.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD);
  std::vector<float> data(1024, 1.0F);
  const Buffer buffer{data.data(), Count{1024}, DType::float32};
  if (own == ranks[1]) {
    int status = -1;
    EXPECT_GT(waitpid(suspend(ranks), &status, 0), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_NO_THROW(communicator->all_reduce(buffer, buffer, ReduceOp::sum).wait());
  EXPECT_EQ(data, std::vector<float>(1024, 2.0F));
  communicator->close();
  group.close();
}

INSTANTIATE_TEST_SUITE_P(EveryWay, Suspension, testing::Values("yield", "sleep"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep::backends
