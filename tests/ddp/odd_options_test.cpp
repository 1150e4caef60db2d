// SPDX-License-Identifier: Apache-2.0
// Ranks that make a group with other options than the others are named on every rank; a World with a group in use
// stays.
#include <gtest/gtest.h>

#include <string>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/errors.hpp"

namespace lockstep {
namespace {

class OddOptions : public testing::Test {
 protected:
  /// Expects a mismatch on every rank that names the last one and what it has.
  void expect_named(const GroupOptions& usual, const GroupOptions& odd, const std::vector<std::string>& parts) {
    const int last = world_.size() - 1;
    const bool is_odd = world_.rank().value == last;
    std::vector<std::string> all = parts;
    all.push_back("rank " + std::to_string(last));
    expect_error([&] { const ProcessGroup group(world_, is_odd ? odd : usual); }, ErrorCode::mismatch, all);
    expect_error([&] { const ProcessGroup group(world_.group().dup(), is_odd ? odd : usual); }, ErrorCode::mismatch,
                 all);
  }
  World world_;
};

TEST_F(OddOptions, AreNamedWhereAGroupIsMade) {
  expect_named({.algorithm = "ring"}, {.algorithm = "tree"}, {"ring", "tree"});
  expect_named({.check = false}, {.check = true}, {"check"});
  expect_named({}, {.compress = backends::WireFormat::bfloat16}, {"bf16"});
  expect_named({}, {.checksum = true}, {"checksum"});
  expect_named({}, {.connections = 2}, {"connections 2"});
}

TEST(GroupOptionsOfMpi, RefuseChecksumsOfMpisOwnMessages) {
  World world;
  expect_error([&] { const ProcessGroup group(world, {.sockets = "no", .checksum = true}); },
               ErrorCode::invalid_argument, {"leave out `sockets no`, or the checksum"});
  for (const int connections : {0, 17})
    expect_error([&] { const ProcessGroup group(world, {.connections = connections}); }, ErrorCode::invalid_argument,
                 {"between two ranks is " + std::to_string(connections), "choose 1 to 16"});
  expect_error([&] { const ProcessGroup group(world, {.algorithm = "mpi", .checksum = true}); },
               ErrorCode::invalid_argument, {"messages of the algorithm mpi have no checksums"});
  world.close();
}

TEST(WorldErrors, OfClosingWhileAnOperationOfAGroupIsUnderWay) {
  World world;
  ProcessGroup group(world);
  int number = 0;
  const int sent = 7;
  Work work = group.communicator().recv(number, group.rank());
  expect_error([&] { world.close(); }, ErrorCode::invalid_argument, {"under way"});
  group.communicator().send(sent, group.rank()).wait();
  work.wait();
  EXPECT_EQ(number, 7);
  world.close();
}

}  // namespace
}  // namespace lockstep
