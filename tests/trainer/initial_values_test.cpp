// SPDX-License-Identifier: Apache-2.0
// Ranks whose seeds would give them different weights get rank 0's weights, or an error that names the ranks.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {
namespace {

class InitialParameters : public testing::Test {
 protected:
  /// Makes a replica; the last rank's has another seed.
  Replica make(InitialValues how) {
    const std::uint64_t seed = is_odd() ? 2 : 1;
    const nn::DataSpec data = nn::DataSpec::of_images(1, 8, 8, 10);
    return {members_, *ops_, nn::make_model("lenet", data), {data.tensors}, {.seed = seed, .initial = how}, nullptr};
  }
  void TearDown() override {
    members_.close();
    world_.close();
  }
  [[nodiscard]] bool is_odd() const { return world_.rank().value == world_.size() - 1; }

  World world_;
  ProcessGroup members_{world_, {.wait = {.spins_before_yield = 0}}};
  std::unique_ptr<ops::Ops> ops_ = ops::make_reference_ops();
};

TEST_F(InitialParameters, AreRankZerosOnEveryRank) {
  const Replica replica = make(InitialValues::broadcast);
  const Buffer values = replica.data_parallel().values();
  const std::string mine(static_cast<const char*>(values.data), static_cast<std::size_t>(values.bytes().value));
  EXPECT_EQ(mine, broadcast_string(world_.group(), mine, {0}));
}

TEST_F(InitialParameters, AreComparedWhereThatIsAskedFor) {
  try {
    const Replica replica = make(InitialValues::compare);
    ADD_FAILURE() << "went on with weights that differ";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
    EXPECT_TRUE(error.is_on_every_rank());
    EXPECT_EQ(error.context().peers, std::vector{world_.size() - 1}) << error.what();
  }
}

}  // namespace
}  // namespace lockstep::trainer
