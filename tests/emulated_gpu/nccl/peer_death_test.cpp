// SPDX-License-Identifier: Apache-2.0
// The process of a rank ends in the middle. NCCL may notify the others or not.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "emulated_gpu/nccl/ranks.hpp"

namespace emulated_gpu::nccl_test::peer_death {
namespace {

constexpr std::size_t count = 64;
constexpr const char* id_variable = "LOCKSTEP_TEST_UNIQUE_ID";

std::string to_text(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    text += static_cast<char>('a' + (static_cast<unsigned char>(c) >> 4));
    text += static_cast<char>('a' + (static_cast<unsigned char>(c) & 15));
  }
  return text;
}

ncclUniqueId from_text(const char* text) {
  ncclUniqueId id{};
  for (std::size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(((text[2 * i] - 'a') << 4) + (text[2 * i + 1] - 'a'));
  return id;
}

Rank join(const ncclUniqueId& id, int number) {
  check(cudaSetDevice(number));
  Rank rank{.rank = number, .ranks = 2};
  ncclConfig_t config = configuration(false);
  check(ncclCommInitRankConfig(&rank.comm, rank.ranks, id, number, &config));
  check(settle(rank.comm));
  check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
  return rank;
}

void reduce_once(const Rank& rank, const DeviceValues<float>& values) {
  check(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream));
}

/// Runs rank 1, in a process that a test below starts.
TEST(MortalRank, DISABLED_DiesAfterItsFirstOperation) {
  const Rank rank = join(from_text(std::getenv(id_variable)), 1);
  const DeviceValues<float> values(std::vector<float>(count, 1));
  reduce_once(rank, values);
  rank.finish();
  kill(getpid(), SIGKILL);
}

class PeerDeath : public testing::Test {
 protected:
  void SetUp() override {
    const ncclUniqueId id = new_id();
    setenv(id_variable, to_text(id).c_str(), 1);
    std::string program = "/proc/self/exe";
    std::string filter = "--gtest_filter=MortalRank.*";
    std::string disabled = "--gtest_also_run_disabled_tests";
    char* arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
    ASSERT_EQ(posix_spawn(&child_, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    rank_ = join(id, 0);
  }
  void TearDown() override {
    unsetenv("EMULATED_NCCL_NOTICES");
    if (rank_.comm != nullptr) check(ncclCommAbort(rank_.comm));
    check(cudaStreamSynchronize(rank_.stream));
  }

  /// Runs one operation with rank 1, which then dies, and one without it.
  void outlive(const DeviceValues<float>& values) {
    reduce_once(rank_, values);
    rank_.finish();
    EXPECT_EQ(values.get(), std::vector<float>(count, 2));
    int status = 0;
    ASSERT_EQ(waitpid(child_, &status, 0), child_);
    ASSERT_TRUE(WIFSIGNALED(status));
    reduce_once(rank_, values);
  }
  Rank& rank() { return rank_; }

 private:
  pid_t child_ = 0;
  Rank rank_;
};

class PeerDeathThatIsNoticed : public PeerDeath {
 protected:
  void SetUp() override {
    setenv("EMULATED_NCCL_NOTICES", "1", 1);
    PeerDeath::SetUp();
  }
};

class PeerDeathThatIsNot : public PeerDeath {
 protected:
  void SetUp() override {
    setenv("EMULATED_NCCL_NOTICES", "0", 1);
    PeerDeath::SetUp();
  }
};

TEST_F(PeerDeathThatIsNoticed, IsAnAsynchronousErrorAndTheGpuWaitsOn) {
  const DeviceValues<float> values(std::vector<float>(count, 1));
  outlive(values);
  wait_until([&] { return state_of(rank().comm) == ncclRemoteError; });
  EXPECT_EQ(cudaStreamQuery(rank().stream), cudaErrorNotReady);
  check(ncclCommAbort(std::exchange(rank().comm, nullptr)));
  check(cudaStreamSynchronize(rank().stream));
}

TEST_F(PeerDeathThatIsNot, MakesTheGpuWaitForEver) {
  const DeviceValues<float> values(std::vector<float>(count, 1));
  outlive(values);
  EXPECT_EQ(settle(rank().comm), ncclSuccess);
  EXPECT_TRUE(stays(
      [&] { return state_of(rank().comm) == ncclSuccess && cudaStreamQuery(rank().stream) == cudaErrorNotReady; }));
  check(ncclCommAbort(std::exchange(rank().comm, nullptr)));
  check(cudaStreamSynchronize(rank().stream));
}

}  // namespace
}  // namespace emulated_gpu::nccl_test::peer_death
