// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "lockstep/trainer/replica.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t side = 8;
constexpr TrainerOptions options{.precision = DType::float64, .batch = {3}};

/// A sample on each rank, every pixel of this value.
Error error_of_step(Replica& replica, double pixel) {
  std::array<double, side * side> image{};
  image.fill(pixel);
  const std::array<std::int32_t, 1> labels{4};
  try {
    replica.step({.samples = {1},
                  .step_samples = {3},
                  .images = {image.data(), {side * side}, DType::float64},
                  .labels = labels},
                 0.1);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::unsupported, "nothing was thrown"};
}

TEST(NotFinite, EveryRankNamesThoseWhoseOwnLossItIsAndKeepsItsWeights) {
  World world;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    const auto ops = ops::make_reference_ops();
    Replica replica(members, *ops, nn::make_model("lenet", {1, 1, side, side}, 10), options, nullptr);
    Snapshot before;
    replica.save(before);
    const bool at_fault = world.rank() != Rank{0};
    const Error error = error_of_step(replica, at_fault ? std::numeric_limits<double>::quiet_NaN() : 0.5);
    EXPECT_NE(error.message().find("on rank 1, 2 the rank's own loss is not"), std::string::npos) << error.message();
    EXPECT_EQ(error.context().peers, (std::vector<int>{1, 2}));
    EXPECT_TRUE(error.is_on_every_rank());
    Snapshot after;
    replica.save(after);
    EXPECT_EQ(after.weights, before.weights);
  }
  members.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
