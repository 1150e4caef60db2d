// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "lockstep/backends/membership.hpp"
#include "lockstep/platform/world.hpp"

namespace lockstep::backends {
namespace {

constexpr auto deadline = std::chrono::seconds(60);

TEST(MembershipWithAProgressThread, Works) {
  World world;
  Membership membership(world.group(), {.wait = {.spins_before_yield = 0}, .progress_thread = true});
  std::vector<float> values(100'000, 1.0F);
  const Buffer buffer{values.data(), {100'000}, DType::float32};
  Work work = membership.gradients().all_reduce(buffer, buffer, ReduceOp::sum);
  membership.statistics().barrier().wait();
  work.wait();
  EXPECT_EQ(values[99'999], static_cast<float>(membership.size()));
  membership.close();
  world.close();
}

/// The point of it: nobody polls, and yet the operation ends.
TEST(MembershipWithAProgressThread, EndsOperationsThatNobodyWaitsFor) {
  World world;
  Membership membership(world.group(), {.wait = {.spins_before_yield = 0}, .progress_thread = true});
  std::vector<float> values(300'000, 1.0F);
  const Buffer buffer{values.data(), {300'000}, DType::float32};
  Work work = membership.gradients().all_reduce(buffer, buffer, ReduceOp::sum);
  const auto begin = std::chrono::steady_clock::now();
  while (!work.test() && std::chrono::steady_clock::now() - begin < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(work.test());
  EXPECT_EQ(values[0], static_cast<float>(membership.size()));
  work.wait();
  membership.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
