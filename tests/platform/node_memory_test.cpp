// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/node_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/wake_ups.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"

namespace lockstep {
namespace {

using testing_support::wake_up_control;

constexpr std::int64_t mebibyte = 1 << 20;

std::int64_t memory_of_this_machine() { return std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

bool all_are(const void* data, std::int64_t bytes, char value) {
  const auto* begin = static_cast<const char*>(data);
  return std::all_of(begin, begin + bytes, [value](char c) { return c == value; });
}

class NodeMemoryTest : public testing::Test {
 protected:
  void TearDown() override {
    if (memory_ != nullptr) memory_->close();
    world_.close();
  }
  [[nodiscard]] const RankSet& node() const { return world_.node_group(); }
  [[nodiscard]] int rank() const { return node().rank().value; }
  [[nodiscard]] int size() const { return node().size(); }

  /// Makes the node's memory, which must succeed.
  NodeMemory& make(const NodeMemoryOptions& options = {}) {
    std::string why_not;
    memory_ = make_node_memory(node(), options, why_not);
    if (memory_ == nullptr) throw std::runtime_error(why_not);
    return *memory_;
  }

  World world_;
  std::shared_ptr<NodeMemory> memory_;
};

TEST_F(NodeMemoryTest, EveryRankSeesWhatTheOthersWriteIntoTheirControlAreas) {
  const NodeMemory& memory = make({.control_bytes = Bytes{5000}});
  EXPECT_EQ(memory.rank(), rank());
  EXPECT_EQ(memory.size(), size());
  const std::int64_t bytes = memory.control_bytes().value;
  EXPECT_EQ(bytes, 8192);
  for (int peer = 0; peer < size(); ++peer) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.control(peer)) % 4096, 0U);
    EXPECT_TRUE(all_are(memory.control(peer), bytes, 0));
  }
  barrier(node());
  std::memset(memory.control(rank()), rank() + 1, static_cast<std::size_t>(bytes));
  barrier(node());
  for (int peer = 0; peer < size(); ++peer) EXPECT_TRUE(all_are(memory.control(peer), bytes, char(peer + 1)));
}

TEST_F(NodeMemoryTest, WhatARankAllocatesTheOthersReadAndWriteWhereItLocatesIt) {
  NodeMemory& memory = make();
  for (const std::int64_t bytes : {std::int64_t{100}, 3 * mebibyte + 8}) {
    const Allocation mine = memory.allocate({bytes});
    EXPECT_EQ(mine.kind(), MemoryKind::shared);
    EXPECT_EQ(mine.bytes().value, bytes);
    EXPECT_TRUE(all_are(mine.data(), bytes, 0));
    std::memset(mine.data(), rank() + 1, static_cast<std::size_t>(bytes));
    const auto location = memory.locate(static_cast<char*>(mine.data()) + 8, {bytes - 8});
    ASSERT_TRUE(location);
    const auto locations = all_gather_numbers(node(), static_cast<std::int64_t>(*location));
    const auto there = [&](int peer) {
      return memory.at(peer, static_cast<std::uint64_t>(locations[static_cast<std::size_t>(peer)]));
    };
    EXPECT_EQ(there(rank()), static_cast<std::byte*>(mine.data()) + 8);
    for (int peer = 0; peer < size(); ++peer) EXPECT_TRUE(all_are(there(peer), bytes - 8, char(peer + 1)));
    barrier(node());
    there((rank() + 1) % size())[bytes - 9] = static_cast<std::byte>(rank() + 100);
    barrier(node());
    EXPECT_EQ(static_cast<char*>(mine.data())[bytes - 1], (rank() + size() - 1) % size() + 100);
  }
}

TEST_F(NodeMemoryTest, AllocationsAreAlignedTheMoreTheLarger) {
  NodeMemory& memory = make();
  const auto alignment_of = [](const Allocation& a, std::uintptr_t to) {
    return reinterpret_cast<std::uintptr_t>(a.data()) % to;
  };
  const Allocation small = memory.allocate({1});
  const Allocation large = memory.allocate({2 * mebibyte});
  EXPECT_EQ(alignment_of(small, 4096), 0U);
  EXPECT_EQ(alignment_of(large, 2 * mebibyte), 0U);
  EXPECT_EQ(memory.allocate({0}).data(), nullptr);
  EXPECT_EQ(code_of([&] { (void)memory.allocate({-1}); }), ErrorCode::invalid_argument);
}

TEST_F(NodeMemoryTest, ReleasedMemoryIsUsedAgainAndZeroed) {
  NodeMemory& memory = make({.heap_bytes = Bytes{8 * mebibyte}});
  const void* first = nullptr;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const Allocation mine = memory.allocate({6 * mebibyte});
    if (first == nullptr) first = mine.data();
    EXPECT_EQ(mine.data(), first);
    EXPECT_TRUE(all_are(mine.data(), mine.bytes().value, 0));
    std::memset(mine.data(), 7, static_cast<std::size_t>(mine.bytes().value));
  }
}

TEST_F(NodeMemoryTest, OtherMemoryIsNotLocated) {
  NodeMemory& memory = make({.heap_bytes = Bytes{6 * mebibyte}});
  const std::vector<int> ordinary(100);
  int on_stack = 0;
  EXPECT_EQ(memory.locate(ordinary.data(), {400}), std::nullopt);
  EXPECT_EQ(memory.locate(&on_stack, {4}), std::nullopt);
  EXPECT_EQ(memory.locate(nullptr, {0}), std::nullopt);
  const Allocation mine = memory.allocate({4 * mebibyte});
  EXPECT_TRUE(memory.locate(mine.data(), mine.bytes()));
  EXPECT_EQ(memory.locate(mine.data(), {4 * mebibyte + 1}), std::nullopt);
  EXPECT_EQ(memory.locate(static_cast<char*>(mine.data()) - 3 * mebibyte, {4 * mebibyte}), std::nullopt);
  EXPECT_EQ(memory.locate(static_cast<char*>(mine.data()) + 1, {4 * mebibyte}), std::nullopt);
  EXPECT_EQ(memory.locate(mine.data(), {-1}), std::nullopt);
}

TEST_F(NodeMemoryTest, MoreMemoryThanTheNodeHasIsAnError) {
  const std::int64_t all = memory_of_this_machine();
  NodeMemory& memory = make({.heap_bytes = Bytes{2 * all}});
  const Allocation little = memory.allocate({1});  // for some time after it, slightly larger sizes are not checked
  try {
    (void)memory.allocate({all});
    FAIL() << "got as much memory as the whole machine has";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.context().bytes, all);
    EXPECT_NE(error.message().find("local rank " + std::to_string(rank()) + " on host " + world_.host()),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.message().find("bytes of memory left"), std::string::npos) << error.what();
  }
}

TEST_F(NodeMemoryTest, AFullHeapIsAnErrorUntilSomethingIsReleased) {
  NodeMemory& memory = make({.heap_bytes = Bytes{6 * mebibyte}});
  auto most = memory.allocate({3 * mebibyte});
  EXPECT_EQ(code_of([&] { (void)memory.allocate({2 * mebibyte}); }), ErrorCode::unsupported);
  const Allocation rest = memory.allocate({mebibyte});
  EXPECT_EQ(code_of([&] { (void)memory.allocate({2 * mebibyte}); }), ErrorCode::unsupported);
  most = {};
  EXPECT_NO_THROW((void)memory.allocate({2 * mebibyte}));
}

TEST_F(NodeMemoryTest, NothingStaysOpen) {
  make().close();  // opens what the first use opens
  const std::ptrdiff_t before = open_descriptors();
  for (int repetition = 0; repetition < 3; ++repetition) {
    NodeMemory& memory = make();
    auto outlives = memory.allocate({mebibyte});
    memory.close();
    memory.close();
    EXPECT_EQ(code_of([&] { (void)memory.allocate({mebibyte}); }), ErrorCode::invalid_argument);
    std::memset(outlives.data(), 1, mebibyte);
    outlives = {};
    EXPECT_EQ(open_descriptors(), before);
  }
}

TEST_F(NodeMemoryTest, IfOneRankCannotTakePartAllHearWhyAndNothingStaysOpen) {
  const std::ptrdiff_t before = open_descriptors();
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  const rlimit none{.rlim_cur = 3, .rlim_max = old.rlim_max};
  if (rank() == size() - 1) setrlimit(RLIMIT_NOFILE, &none);
  std::string why_not;
  EXPECT_EQ(make_node_memory(node(), {}, why_not), nullptr);
  setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_NE(why_not.find("local rank " + std::to_string(size() - 1) + " on host " + world_.host()), std::string::npos)
      << why_not;
  EXPECT_NE(why_not.find("Too many open files"), std::string::npos) << why_not;
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(NodeMemoryTest, RanksMustAskForTheSameControlArea) {
  if (size() == 1) LOCKSTEP_SKIP(ranks) << "one rank agrees with itself";
  std::string why_not;
  EXPECT_EQ(make_node_memory(node(), {.control_bytes = Bytes{rank() == 1 ? 9000 : 100}}, why_not), nullptr);
  EXPECT_NE(why_not.find("local rank 1 on host"), std::string::npos) << why_not;
  EXPECT_NE(why_not.find("12288 bytes, local rank 0 one of 4096"), std::string::npos) << why_not;
}

TEST_F(NodeMemoryTest, OnlyARankThatGoesWithoutLeaveIsLost) {
  NodeMemory& memory = make();
  EXPECT_EQ(memory.lost_peer(), std::nullopt);
  barrier(node());
  if (rank() == size() - 1) memory.close();
  barrier(node());
  if (rank() != size() - 1) {
    EXPECT_EQ(memory.lost_peer(), std::nullopt);
  }
  barrier(node());
  const NodeMemory& again = make();  // destroys the first, which only some have closed, after all are in the second
  barrier(node());
  if (rank() == 0) memory_.reset();
  barrier(node());
  if (rank() != 0) {
    EXPECT_EQ(again.lost_peer(), (LostPeer{0, true, "it was destroyed before it was closed"}));
  }
  barrier(node());
}

TEST_F(NodeMemoryTest, WhyARankGaveUpIsReadByTheOthers) {
  NodeMemory& memory = make();
  EXPECT_EQ(memory.given_up(), std::nullopt);
  barrier(node());
  const int last = size() - 1;
  if (rank() == last) memory.give_up("the disk of rank 7 is full");
  barrier(node());
  EXPECT_EQ(memory.given_up(), (LostPeer{last, true, "the disk of rank 7 is full"}));
  EXPECT_EQ(memory.lost_peer(), rank() == last ? std::nullopt : memory.given_up());
  barrier(node());
}

/// The files in memory that this process holds, according to /proc.
struct HeldFiles {
  int number = 0;
  std::int64_t bytes_present = 0;
  HeldFiles() {
    for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // set for the directory's own descriptor
      if (std::filesystem::read_symlink(descriptor, gone).string().find("memfd:lockstep") == std::string::npos)
        continue;
      struct stat status {};
      stat(descriptor.path().c_str(), &status);
      ++number;
      bytes_present += std::int64_t{status.st_blocks} * 512;
    }
  }
};

/// Returns the flags of this process's mapping of the file.
std::string mapping_flags() {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:lockstep") != std::string::npos) inside = true;
    if (inside && line.rfind("VmFlags:", 0) == 0) return line + ' ';
  }
  return {};
}

TEST_F(NodeMemoryTest, GroupsShareWhatTheirRanksHold) {
  NodeMemory& memory = make({.control_bytes = Bytes{5000}});
  auto reversed = node().split(0, -rank()).value();
  auto single = node().split(rank(), 0).value();
  std::string why_not;
  const auto turned = make_node_memory(reversed, {.control_bytes = Bytes{100}}, why_not);
  const auto alone = make_node_memory(single, {}, why_not);
  ASSERT_TRUE(turned && alone) << why_not;
  EXPECT_EQ(HeldFiles().number, 1);
  EXPECT_NE(turned->control(turned->rank()), memory.control(rank()));
  EXPECT_TRUE(all_are(turned->control(turned->rank()), 100, 0));

  const Allocation mine = memory.allocate({100});
  std::memset(mine.data(), rank() + 1, 100);
  const auto location = turned->locate(mine.data(), {100});
  ASSERT_TRUE(location);
  const auto locations = all_gather_numbers(reversed, static_cast<std::int64_t>(*location));
  for (int peer = 0; peer < size(); ++peer) {
    const std::byte* there = turned->at(peer, static_cast<std::uint64_t>(locations[static_cast<std::size_t>(peer)]));
    EXPECT_TRUE(all_are(there, 100, static_cast<char>(size() - peer)));
  }
  EXPECT_EQ(alone->control(0)[0], std::byte{0});
  barrier(node());
  for (const auto& one : {turned, alone}) one->close();
  reversed.close();
  single.close();
}

TEST_F(NodeMemoryTest, AControlAreaGoesToAnotherGroupOnlyWhenAllRanksHaveLeft) {
  make();  // keeps the file
  std::string why_not;
  const auto make_another = [&] { return make_node_memory(node(), {.control_bytes = Bytes{4096}}, why_not); };
  const auto first = make_another();
  const std::byte* area = first->control(rank());
  std::memset(first->control(rank()), 1, 4096);
  barrier(node());
  if (rank() != size() - 1) first->close();
  const auto second = make_another();
  ASSERT_TRUE(second);
  EXPECT_TRUE(size() == 1 || second->control(rank()) != area);
  if (rank() == size() - 1) first->close();
  barrier(node());
  second->close();
  std::set<const std::byte*> areas;
  for (int repetition = 0; repetition < 20; ++repetition) {
    const auto next = make_another();
    areas.insert(next->control(rank()));
    EXPECT_TRUE(all_are(next->control(rank()), 4096, 0));
    std::memset(next->control(rank()), 1, 4096);
    next->close();
  }
  EXPECT_LE(areas.size(), 4U);  // some ranks are a group or two behind
  barrier(node());
}

TEST_F(NodeMemoryTest, AGroupWhoseRanksHoldNothingInCommonMakesItsOwnAndSaysSo) {
  if (size() == 1) LOCKSTEP_SKIP(ranks) << "one rank holds whatever it holds";
  auto some = node().split(rank() == 0 ? 0 : 1, rank()).value();
  std::string why_not;
  const auto first = make_node_memory(some, {}, why_not);
  ASSERT_TRUE(first) << why_not;
  std::string said;
  (void)make({.notice = [&said](std::string_view text) { said = text; }});
  EXPECT_EQ(HeldFiles().number, 2);
  EXPECT_EQ(said.find(std::to_string(size()) + " ranks on host " + world_.host() + " share memory of their own"),
            rank() == 0 ? 0 : std::string::npos)
      << said;
  barrier(node());
  first->close();
  some.close();
}

TEST_F(NodeMemoryTest, ControlAreasAreThereWhenTheyAreTouchedAndInNoCoreDump) {
  const NodeMemory& memory = make({.control_bytes = Bytes{64 * mebibyte}});
  barrier(node());
  EXPECT_LT(HeldFiles().bytes_present, mebibyte);
  barrier(node());
  std::memset(memory.control(rank()), 1, 4 * mebibyte);
  EXPECT_GE(HeldFiles().bytes_present, 4 * mebibyte);
  EXPECT_NE(mapping_flags().find(" dd "), std::string::npos) << mapping_flags();
  barrier(node());
}

TEST_F(NodeMemoryTest, SixtyFourAtOnceTakeNoMoreAddressesThanOne) {
  (void)make({.control_bytes = Bytes{mebibyte}});
  std::int64_t before = 0;
  std::ifstream("/proc/self/statm") >> before;
  std::vector<std::shared_ptr<NodeMemory>> all;
  std::string why_not;
  for (int i = 0; i < 64; ++i) {
    all.push_back(make_node_memory(node(), {.control_bytes = Bytes{mebibyte}}, why_not));
    ASSERT_TRUE(all.back()) << why_not;
  }
  std::int64_t after = 0;
  std::ifstream("/proc/self/statm") >> after;
  EXPECT_LT((after - before) * sysconf(_SC_PAGESIZE), 16 * mebibyte);
  barrier(node());
  for (const auto& memory : all) memory->close();
}

/// /proc hides the node's other processes.
TEST_F(NodeMemoryTest, IsSharedWithoutProc) {
  NodeMemory& memory = make({.control_bytes = Bytes{4096}, .proc = false});
  memory.control(rank())[0] = static_cast<std::byte>(rank() + 1);
  barrier(node());
  for (int peer = 0; peer < size(); ++peer) EXPECT_EQ(memory.control(peer)[0], static_cast<std::byte>(peer + 1));
  barrier(node());
}

/// The parameter is whether membarrier is used.
class WakeUps : public NodeMemoryTest, public testing::WithParamInterface<bool> {
 protected:
  NodeMemory& make() {
    NodeMemory& memory = NodeMemoryTest::make({.control_bytes = wake_up_control, .membarrier = GetParam()});
    barrier(node());
    testing_support::take_turns_on_every_processor();
    return memory;
  }
};
INSTANTIATE_TEST_SUITE_P(NodeMemory, WakeUps, testing::Bool(),
                         [](const auto& test) { return test.param ? "membarrier" : "locked"; });

TEST_P(WakeUps, NoneIsLostWhileATokenWanders) {
  EXPECT_EQ(testing_support::pass_a_token(make(), 4000), 0);
  barrier(node());
}

TEST_P(WakeUps, NoneIsLostByARankThatIsFallingAsleep) {
  EXPECT_EQ(testing_support::ring_while_falling_asleep(make(), 5000), 0);
  barrier(node());
}

}  // namespace
}  // namespace lockstep
