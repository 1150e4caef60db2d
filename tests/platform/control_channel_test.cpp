// SPDX-License-Identifier: Apache-2.0
// Ranks of one machine are placed on several simulated nodes. An error that one rank raises reaches all others, in
// shared memory, by a message of MPI or over TCP.
#include "platform/node_memory/control_channel.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/on_store.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/make_node_memory.hpp"

namespace lockstep {
namespace {

using Channels = std::vector<std::shared_ptr<ControlChannel>>;

/// Keeps operations under way until the process ends.
void keep(std::shared_ptr<ControlChannel> channel) {
  static auto* const kept = new Channels;
  kept->push_back(std::move(channel));
}

std::optional<Error> hear(ControlChannel& channel) {
  const auto begin = std::chrono::steady_clock::now();
  while (!channel.heard() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30)) {
    channel.poll_messages();
    std::this_thread::yield();
  }
  channel.poll_messages();
  return channel.heard();
}

ClusterShape nodes_of(int ranks, int ranks_per_node) {
  ClusterShape shape;
  for (int rank = 0; rank < ranks; ++rank) shape.node_of_rank.push_back(rank / ranks_per_node);
  return shape;
}

/// How many ranks a node has, and whether they find each other by a store, so that their messages go over TCP.
struct Case {
  int ranks_per_node;
  bool on_store;
};

class ControlChannelBetweenProcesses : public testing::TestWithParam<Case> {
 protected:
  ControlChannelBetweenProcesses() {
    if (GetParam().on_store) on_store_.emplace(world, GetParam().ranks_per_node);
  }
  [[nodiscard]] ClusterShape shape() const { return nodes_of(world.size(), GetParam().ranks_per_node); }
  [[nodiscard]] std::shared_ptr<ControlChannel> make_channel() const {
    return make_control_channel(on_store_ ? on_store_->set() : world.group(), shape());
  }
  void close() {
    on_store_.reset();
    world.close();
  }

  World world;

 private:
  std::optional<backends::OnStore> on_store_;
};

TEST_P(ControlChannelBetweenProcesses, TellsAllRanksWhoItWasWhereAndWhy) {
  const auto channel = make_channel();
  const int odd = world.size() - 1;
  EXPECT_FALSE(channel->heard());
  EXPECT_EQ(channel->has_link(), world.size() > GetParam().ranks_per_node);
  barrier(world.group());
  if (world.rank().value == odd) channel->raise(ErrorCode::device, "the GPU fell off the bus", {4, 5});
  const auto error = hear(*channel);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::device);
  EXPECT_EQ(error->context().peers, world.rank().value == odd ? (std::vector{4, 5}) : (std::vector{odd, 4, 5}));
  EXPECT_EQ(error->is_consequence(), world.rank().value != odd);
  const std::string who = "rank " + std::to_string(odd) + " on " + world.host() + " has given up: ";
  EXPECT_EQ(error->message(), (world.rank().value == odd ? "" : who) + "the GPU fell off the bus");
  barrier(world.group());
  keep(channel);
  close();
}

/// The thread that owns the channel computes, or is stuck in MPI, so that it never looks at its messages again.
TEST_P(ControlChannelBetweenProcesses, TellsOfAnAlarmOfAnotherThreadThanTheOwners) {
  const auto channel = make_channel();
  const int odd = world.size() - 1;
  barrier(world.group());
  if (world.rank().value == odd) {
    std::thread([&] {
      channel->raise(ErrorCode::transport, "the user has had enough", {});
      channel->tell_from_another_thread();
    }).join();
    EXPECT_TRUE(channel->heard());
  } else {
    const auto error = hear(*channel);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->message(),
              "rank " + std::to_string(odd) + " on " + world.host() + " has given up: the user has had enough");
  }
  barrier(world.group());
  keep(channel);
  close();
}

/// Two threads use the link in turn: what the owner sends and receives is not mixed up with the alarm.
TEST_P(ControlChannelBetweenProcesses, TellsOfAnAlarmWhileTheOwnerSendsAndReceives) {
  const auto channel = make_channel();
  barrier(world.group());
  if (world.rank().value == 0) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      channel->raise(ErrorCode::transport, "the user has had enough", {});
      channel->tell_from_another_thread();
    });
    while (!channel->heard())
      if (channel->has_link()) channel->inquire(world.size() - 1);
    other.join();
  }
  const auto error = hear(*channel);
  ASSERT_TRUE(error);
  EXPECT_NE(error->message().find("the user has had enough"), std::string::npos) << error->what();
  barrier(world.group());
  keep(channel);
  close();
}

/// Waits until the condition is true. @return false after half a minute
bool comes(const std::function<bool()>& what) {
  const auto begin = std::chrono::steady_clock::now();
  while (!what()) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(30)) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_P(ControlChannelBetweenProcesses, NamesWhoClosedBeforeTheOthersWereDone) {
  const auto channel = make_channel();
  EXPECT_FALSE(channel->early_close(1000));
  barrier(world.group());
  const bool is_odd = world.rank().value == 1;
  if (is_odd) channel->leave(3);
  std::optional<Error> early;
  EXPECT_TRUE(comes([&] {
    channel->poll_messages();
    return (early = channel->early_close(4)).has_value();
  }));
  ASSERT_TRUE(early);
  EXPECT_EQ(early->context().peers, std::vector{1}) << early->what();
  EXPECT_FALSE(channel->early_close(3));
  // If ranks are on other nodes, nothing is released before all have left.
  if (is_odd && channel->has_link()) {
    EXPECT_FALSE(channel->close());
  }
  barrier(world.group());
  if (!is_odd) channel->leave(3);
  EXPECT_TRUE(comes([&] { return channel->close(); }));
  EXPECT_FALSE(channel->has_link());
  close();
}

TEST_P(ControlChannelBetweenProcesses, BringsQuestionsToTheNodeAndToWhoIsAwaited) {
  const ClusterShape shape = this->shape();
  const auto channel = make_channel();
  const int me = world.rank().value;
  const int asks = world.size() - 1;
  const int awaited = 0;
  barrier(world.group());
  if (me == asks) {
    channel->ask({.number = 7, .what = 8, .hash = 9}, {awaited});
    channel->ask({.number = 17, .what = 18, .hash = 19}, {awaited});  // replaces the first question
  }
  const auto is_on_node_of = [&](int rank) {
    const auto of = [&](int r) { return shape.node_of_rank[static_cast<std::size_t>(r)]; };
    return of(me) == of(rank);
  };
  if (me != asks && (me == awaited || is_on_node_of(asks))) {
    EXPECT_TRUE(comes([&] {
      channel->poll_messages();
      return !channel->questions().empty() && channel->questions().front().call.number == 17;
    }));
    ASSERT_EQ(channel->questions().size(), 1U);
    const ControlChannel::Question& question = channel->questions().front();
    EXPECT_EQ(question.rank, asks);
    EXPECT_EQ(question.call.what, 18U);
    EXPECT_EQ(question.call.hash, 19U);
  }
  barrier(world.group());
  channel->poll_messages();
  if (me == asks || (me != awaited && !is_on_node_of(asks))) {
    EXPECT_TRUE(channel->questions().empty());
  }
  channel->leave(0);
  EXPECT_TRUE(comes([&] { return channel->close(); }));
  close();
}

/// If a communicator is freed while a message for it is under way, the next one with its number might receive the
/// message.
TEST_P(ControlChannelBetweenProcesses, LeavesNothingForTheNextOneToMeet) {
  for (int round = 0; round < 20; ++round) {
    const auto channel = make_channel();
    EXPECT_FALSE(channel->early_close(1000));
    barrier(world.group());
    if (world.rank().value % 3 == round % 3) channel->ask({.number = 1, .what = 2, .hash = 3}, {round % world.size()});
    channel->leave(static_cast<std::uint64_t>(round));
    EXPECT_TRUE(comes([&] { return channel->close(); }));
  }
  close();
}

INSTANTIATE_TEST_SUITE_P(, ControlChannelBetweenProcesses,
                         testing::Values(Case{1, false}, Case{2, false}, Case{4, false}, Case{1, true}, Case{2, true}),
                         [](const auto& parameter) {
                           return std::to_string(parameter.param.ranks_per_node) + "RanksANode" +
                                  (parameter.param.on_store ? "OverTcp" : "");
                         });

TEST(ControlChannelRaise, OfAConsequenceIsNotNews) {
  World world;
  const auto channel = make_control_channel(world.group(), nodes_of(world.size(), 1));
  channel->raise(std::make_exception_ptr(Error(ErrorCode::transport, "rank 9 has given up").as_consequence()));
  channel->poll_messages();
  EXPECT_FALSE(channel->heard());
  channel->leave(0);
  while (!channel->close()) {
  }
  world.close();
}

}  // namespace
}  // namespace lockstep
