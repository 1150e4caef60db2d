// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/agreement.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep {
namespace {

std::string message_of(const World& world, const std::vector<Term>& mine, std::vector<int>* peers = nullptr) {
  try {
    require_equal(world.group(), mine);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_TRUE(error.is_on_every_rank());
    if (peers != nullptr) *peers = error.context().peers;
    return error.message();
  }
  return {};
}

TEST(RequireEqual, NamesTheOddRankItsHostAndBothValues) {
  World world;
  const int odd = world.size() - 1;
  const bool is_odd = world.rank().value == odd;
  EXPECT_EQ(message_of(world, {{"--lr", "0.1"}, {"--seed", "1"}}), "");
  std::vector<int> peers;
  const std::string message = message_of(world, {{"--lr", is_odd ? "0.2" : "0.1"}, {"--seed", "1"}}, &peers);
  const std::string odd_has = "rank " + std::to_string(odd) + " on " + world.host() + " has --lr 0.2";
  if (world.size() > 2) {
    EXPECT_EQ(message, odd_has + ", the other " + std::to_string(odd) + " have 0.1");
    EXPECT_EQ(peers, std::vector{odd});
  } else {
    EXPECT_EQ(message, "rank 0 on " + world.host() + " has --lr 0.1, " + odd_has) << "neither of two is the majority";
    EXPECT_EQ(peers, (std::vector{0, 1}));
  }
  world.close();
}

TEST(RequireEqual, NamesEverySettingThatDiffersAndOneThatIsMissing) {
  World world;
  std::vector<Term> mine{{"algorithm", world.rank().value == 0 ? "mpi" : "auto"}, {"seed", "7"}};
  if (world.rank().value != 0) mine.push_back({"segment", "64"});
  const std::string message = message_of(world, mine);
  EXPECT_NE(message.find("algorithm mpi"), std::string::npos) << message;
  EXPECT_NE(message.find("segment (nothing)"), std::string::npos) << message;
  EXPECT_EQ(message.find("seed"), std::string::npos) << message;
  world.close();
}

}  // namespace
}  // namespace lockstep
