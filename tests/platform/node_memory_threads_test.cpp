// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/node_memory.hpp"
#include "platform/wake_ups.hpp"

namespace lockstep {
namespace {

using testing_support::wake_up_control;

/// Runs `body` on every rank, each on a thread.
void on_every_rank(int ranks, const NodeMemoryOptions& options, const std::function<void(NodeMemory&)>& body) {
  const auto views = make_node_memory_of_threads(ranks, options);
  std::vector<std::thread> threads;
  threads.reserve(views.size());
  for (const auto& view : views) threads.emplace_back([&body, &view] { body(*view); });
  for (std::thread& thread : threads) thread.join();
}

TEST(NodeMemoryThreads, EveryRankSeesWhatTheOthersWriteIntoTheirControlAreas) {
  const auto views = make_node_memory_of_threads(3, {.control_bytes = Bytes{100}});
  EXPECT_EQ(views[0]->control_bytes().value % 4096, 0);
  EXPECT_GE(views[0]->control_bytes().value, 100);
  for (int rank = 0; rank < 3; ++rank) {
    const NodeMemory& mine = *views[static_cast<std::size_t>(rank)];
    EXPECT_EQ(mine.rank(), rank);
    EXPECT_EQ(mine.size(), 3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mine.control(rank)) % 4096, 0U);
    const std::byte* begin = mine.control(rank);
    EXPECT_TRUE(std::all_of(begin, begin + mine.control_bytes().value, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(mine.control(rank), mine.control_bytes().value, static_cast<std::byte>(rank + 1));
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(*views[0]->control(rank), static_cast<std::byte>(rank + 1));
}

TEST(NodeMemoryThreads, AllMemoryCanBeLocated) {
  const auto views = make_node_memory_of_threads(2, {});
  std::vector<int> ordinary(10);
  const auto location = views[0]->locate(ordinary.data(), Bytes{40});
  ASSERT_TRUE(location);
  EXPECT_EQ(views[1]->at(0, *location), reinterpret_cast<std::byte*>(ordinary.data()));
}

TEST(NodeMemoryThreads, AllocationsAreZeroedAlignedAndShared) {
  const auto views = make_node_memory_of_threads(1, {});
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1000}, (std::int64_t{2} << 20) + 1}) {
    for (int repetition = 0; repetition < 2; ++repetition) {
      const Allocation memory = views[0]->allocate({bytes});
      EXPECT_EQ(memory.kind(), MemoryKind::shared);
      EXPECT_EQ(memory.bytes().value, bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % (bytes < 2 << 20 ? 64 : 2 << 20), 0U);
      auto* data = static_cast<std::byte*>(memory.data());
      EXPECT_TRUE(std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; }));
      std::fill_n(data, bytes, std::byte{1});
    }
  }
  EXPECT_EQ(views[0]->allocate({0}).data(), nullptr);
  EXPECT_THROW((void)views[0]->allocate({-1}), Error);
  EXPECT_EQ(views[0]->lost_peer(), std::nullopt);
}

TEST(NodeMemoryThreads, AnAllocationOutlivesItsNodeMemory) {
  auto views = make_node_memory_of_threads(2, {});
  const Allocation memory = views[0]->allocate({100});
  views[0]->close();
  views[0]->close();
  EXPECT_THROW((void)views[0]->allocate({100}), Error);
  views.clear();
  static_cast<char*>(memory.data())[99] = 1;
}

TEST(NodeMemoryThreads, WhatWasSaidFirstStaysTheReason) {
  auto views = make_node_memory_of_threads(3, {});
  EXPECT_EQ(views[0]->given_up(), std::nullopt);
  const std::string long_reason(NodeMemory::longest_reason + 50, 'x');
  views[1]->give_up(long_reason);
  views[2]->give_up("later");
  views[1]->give_up("in vain");
  views[1]->close();
  EXPECT_EQ(views[0]->given_up(), (LostPeer{1, true, long_reason.substr(0, NodeMemory::longest_reason)}));
}

TEST(NodeMemoryThreads, WhoGivesUpWakesThoseThatSleep) {
  const auto views = make_node_memory_of_threads(2, {});
  views[0]->prepare_sleep();
  views[1]->give_up("no more");
  EXPECT_TRUE(views[0]->sleep(testing_support::sleep_limit));
}

TEST(NodeMemoryThreads, RefusesANodeOfNobody) { EXPECT_THROW((void)make_node_memory_of_threads(0, {}), Error); }

TEST(NodeMemoryThreads, ASleepThatNobodyRingsEndsByItsLimit) {
  const auto views = make_node_memory_of_threads(2, {});
  views[0]->prepare_sleep();
  EXPECT_FALSE(views[0]->sleep(std::chrono::milliseconds(1)));
  views[0]->prepare_sleep();
  views[1]->ring();
  EXPECT_TRUE(views[0]->sleep(testing_support::sleep_limit));
}

/// The parameter is whether membarrier is used.
class WakeUps : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static NodeMemoryOptions options() {
    return {.control_bytes = wake_up_control, .membarrier = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(NodeMemoryThreads, WakeUps, testing::Bool(),
                         [](const auto& test) { return test.param ? "membarrier" : "locked"; });

TEST_P(WakeUps, NoneIsLostWhileATokenWanders) {
  std::atomic<int> limits{0};
  on_every_rank(4, options(), [&limits](NodeMemory& mine) { limits += testing_support::pass_a_token(mine, 4000); });
  EXPECT_EQ(limits, 0);
}

TEST_P(WakeUps, NoneIsLostByARankThatIsFallingAsleep) {
  std::atomic<int> limits{0};
  on_every_rank(2, options(),
                [&limits](NodeMemory& mine) { limits += testing_support::ring_while_falling_asleep(mine, 5000); });
  EXPECT_EQ(limits, 0);
}

TEST_P(WakeUps, DataWrittenBeforeTheRingIsSeenAfterTheSleep) {
  // The data are in plain memory, so that the thread sanitizer checks the order.
  constexpr int ranks = 3;
  constexpr int rounds = 300;
  std::array<Allocation, ranks> memory;
  std::atomic<int> wrong{0};
  on_every_rank(ranks, options(), [&](NodeMemory& mine) {
    const auto own = static_cast<std::size_t>(mine.rank());
    memory[own] = mine.allocate({sizeof(int) * 256});
    const auto location = mine.locate(memory[own].data(), memory[own].bytes()).value();
    testing_support::control_word(mine, mine.rank(), 4).store(location);
    for (int round = 1; round <= rounds; ++round) {
      std::fill_n(static_cast<int*>(memory[own].data()), 256, round);
      for (const std::uint64_t phase : {0, 1}) {
        const std::uint64_t value = 2 * static_cast<std::uint64_t>(round) + phase;
        testing_support::control_word(mine, mine.rank(), 5).store(value, std::memory_order_release);
        mine.ring();
        for (int peer = 0; peer < ranks; ++peer) {
          // A peer may be one phase ahead, and has then passed the awaited value.
          while (testing_support::control_word(mine, peer, 5).load(std::memory_order_acquire) < value) {
            mine.prepare_sleep();
            if (testing_support::control_word(mine, peer, 5).load(std::memory_order_acquire) >= value) {
              mine.cancel_sleep();
            } else {
              mine.sleep(testing_support::sleep_limit);
            }
          }
        }
        if (phase == 1) break;  // all have read
        for (int peer = 0; peer < ranks; ++peer) {
          const auto* theirs =
              reinterpret_cast<const int*>(mine.at(peer, testing_support::control_word(mine, peer, 4).load()));
          wrong += static_cast<int>(std::count_if(theirs, theirs + 256, [round](int x) { return x != round; }));
        }
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lockstep
