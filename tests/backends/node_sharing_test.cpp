// SPDX-License-Identifier: Apache-2.0
// Tests many communicators, many ranks on a node, and a node whose ranks cannot share memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/make_agreed.hpp"
#include "backends/no_more_files.hpp"
#include "backends/plan/options.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/machine/topology.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "support/on_processor.hpp"

namespace lockstep::backends {
namespace {

/// Returns a field of /proc/self/status, in KiB.
long long memory_of_this_process(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != field + ':') continue;
    long long kibibytes = 0;
    status >> kibibytes;
    return kibibytes;
  }
  return -1;
}

/// All-reduces integers whose sums are exact in float. @return the number of wrong elements
int wrong_sums(Communicator& communicator, std::int64_t count) {
  const Allocation memory = communicator.allocate({count * 4});
  auto* values = static_cast<float*>(memory.data());
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(communicator.rank().value + i % 1000);
  const Buffer buffer{values, {count}, DType::float32, memory.kind()};
  communicator.all_reduce(buffer, buffer, ReduceOp::sum).wait();
  const int ranks = communicator.size();
  int wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    wrong += values[i] != static_cast<float>(ranks * (ranks - 1) / 2 + ranks * (i % 1000)) ? 1 : 0;
  }
  return wrong;
}

TEST(NodeSharing, ManyCommunicatorsAtOnceAllShareMemory) {
  World world;
  const int number = world.size() > 8 ? 8 : 64;  // 64 communicators of 24 ranks would take half a minute
  Progress progress(WaitPolicy{.spins_before_yield = 0});
  std::string said;
  const auto notice = [&said](std::string_view text) { said += text; };
  const auto selection = collectives::selection_on(world.shape());
  const long long before = memory_of_this_process("VmRSS");
  std::vector<std::unique_ptr<Communicator>> all;
  for (int i = 0; i < number; ++i) {
    all.push_back(plan_on(world.group(), progress, {.selection = selection, .notice = notice}));
  }
  const long long made = memory_of_this_process("VmRSS");
  for (const auto& communicator : all) {
    EXPECT_EQ(communicator->allocate({4096}).kind(), MemoryKind::shared);
    EXPECT_EQ(wrong_sums(*communicator, 1), 0);
  }
  const long long small = memory_of_this_process("VmRSS");
  EXPECT_EQ(wrong_sums(*all.front(), 1 << 18), 0);
  if (world.rank() == Rank{0}) {
    std::printf(
        "%d ranks, %d communicators: rank 0 has %lld KiB, %lld more when they are made, %lld more when each has "
        "added up 4 bytes; address space %lld MiB\n",
        world.size(), number, before, made - before, small - made, memory_of_this_process("VmSize") / 1024);
  }
  EXPECT_EQ(said, "");
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kibibytes = 4096;  // includes the sanitizer's own memory
#else
  constexpr int kibibytes = 1024;
#endif
  EXPECT_LT(small - before, number * kibibytes);
  for (const auto& communicator : all) communicator->close();
  world.close();
}

TEST(NodeSharing, WhereItFailsThatIsSaidOnceAndExplained) {
  World world;
  barrier(world.group());
  std::vector<std::string> said;
  auto limit = world.rank() == world.size() - 1 ? std::make_unique<NoMoreFiles>() : nullptr;
  CommunicatorOptions options{.plan = {.notice = [&said](std::string_view text) { said.emplace_back(text); }}};
  Progress progress({.spins_before_yield = 0});
  agree_on(world.group(), options);
  const auto communicator = make_communicator(world.group(), progress, options);
  EXPECT_EQ(wrong_sums(*communicator, 1000), 0);
  limit.reset();
  EXPECT_FALSE(options.selection()->shared_memory);
  const auto another = make_communicator(world.group(), progress, options);  // does not try again
  EXPECT_EQ(wrong_sums(*another, 1000), 0);
  ASSERT_EQ(said.size(), world.rank() == Rank{0} ? 1U : 0U);
  if (world.rank() == Rank{0}) {
    EXPECT_NE(said[0].find("cannot share memory (local rank " + std::to_string(world.size() - 1)), std::string::npos)
        << said[0];
    EXPECT_NE(said[0].find("Too many open files"), std::string::npos) << said[0];
  }
  another->close();
  communicator->close();
  world.close();
}

/// Returns whether rank 0 ends an all-reduce that the others have submitted before, but do not advance any more.
bool ends_without_the_others(const World& world, std::int64_t count) {
  Progress progress({.spins_before_yield = 0});
  const auto communicator = make_agreed(world.group(), progress, {});
  const Allocation memory = communicator->allocate({count * 4});
  const Buffer buffer = memory.as(DType::float32);
  const auto submit = [&] { return communicator->all_reduce(buffer, buffer, ReduceOp::sum); };
  std::optional<Work> work;
  if (world.rank() != Rank{0}) work = submit();
  barrier(world.group());
  bool ended = false;
  if (world.rank() == Rank{0}) {
    work = submit();
    ended = work->wait(std::chrono::milliseconds(200));
  }
  barrier(world.group());
  work->wait();
  communicator->close();
  return ended;
}

TEST(NodeSharing, RanksThatTakeTurnsMeetOnceInAnAllReduceOfAFewKibibytes) {
  World world;
  const std::vector<int> pus = discover_topology().pus.numbers();
  // Rank 0 then reads more than with a processor for each rank, and as much as it may where they take turns.
  const std::int64_t count = NodeOptions::pull_limit_in_turns.value / 4 / (world.size() - 1);
  {
    const testing_support::OnProcessor same(pus.front());
    EXPECT_EQ(ends_without_the_others(world, count), world.rank() == Rank{0});
    EXPECT_FALSE(ends_without_the_others(world, count + 1));
  }
  if (static_cast<std::size_t>(world.size()) <= pus.size()) {
    const testing_support::OnProcessor own(pus[static_cast<std::size_t>(world.rank().value)]);
    EXPECT_FALSE(ends_without_the_others(world, count));
  }
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
