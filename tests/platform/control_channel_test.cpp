// SPDX-License-Identifier: Apache-2.0
// Ranks of one machine as if they were on several nodes: what one raises, all others hear, by word or by message.
#include "platform/node_memory/control_channel.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/platform/mpi/world.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/make_control_channel.hpp"

namespace lockstep {
namespace {

using Channels = std::vector<std::shared_ptr<ControlChannel>>;

/// What is under way is kept until the process ends.
void keep(std::shared_ptr<ControlChannel> channel) {
  static auto* const kept = new Channels;
  kept->push_back(std::move(channel));
}

std::optional<Error> hear(ControlChannel& channel) {
  const auto begin = std::chrono::steady_clock::now();
  while (!channel.heard() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30)) {
    channel.tend();
    std::this_thread::yield();
  }
  channel.tend();
  return channel.heard();
}

ClusterShape nodes_of(int ranks, int ranks_per_node) {
  ClusterShape shape;
  for (int rank = 0; rank < ranks; ++rank) shape.node_of_rank.push_back(rank / ranks_per_node);
  return shape;
}

class ControlChannelOverMpi : public testing::TestWithParam<int> {};

TEST_P(ControlChannelOverMpi, TellsAllRanksWhoItWasWhereAndWhy) {
  World world;
  const auto channel = make_control_channel(world.group(), nodes_of(world.size(), GetParam()));
  const int odd = world.size() - 1;
  EXPECT_FALSE(channel->heard());
  EXPECT_EQ(channel->has_post(), world.size() > GetParam());
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
  world.close();
}

TEST_P(ControlChannelOverMpi, NamesWhoClosedBeforeTheOthersWereDone) {
  World world;
  const auto channel = make_control_channel(world.group(), nodes_of(world.size(), world.size()));
  EXPECT_FALSE(channel->early_close(1000));
  barrier(world.group());
  if (world.rank().value == 1) channel->leave(3);
  barrier(world.group());
  EXPECT_FALSE(channel->early_close(3));
  const auto early = channel->early_close(4);
  ASSERT_TRUE(early);
  EXPECT_EQ(early->context().peers, std::vector{1}) << early->what();
  barrier(world.group());
  if (world.rank().value != 1) channel->leave(3);
  channel->close();
  world.close();
}

INSTANTIATE_TEST_SUITE_P(RanksPerNode, ControlChannelOverMpi, testing::Values(1, 2, 4));

TEST(ControlChannelRaise, OfAConsequenceIsNotNews) {
  World world;
  const auto channel = make_control_channel(world.group(), nodes_of(world.size(), 1));
  channel->raise(std::make_exception_ptr(Error(ErrorCode::transport, "rank 9 has given up").as_consequence()));
  channel->tend();
  EXPECT_FALSE(channel->heard());
  channel->leave(0);
  channel->close();
  world.close();
}

}  // namespace
}  // namespace lockstep
