// SPDX-License-Identifier: Apache-2.0
// Tests more elements than an int can count. It is opt-in, because two ranks need 9 GB together.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "backends/make_agreed.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/verdict.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr std::int64_t large_elements = (std::int64_t{1} << 31) + 1009;

/// The period divides no power of two, so an offset that is truncated to 31 or 32 bits gives another value.
constexpr int period = 113;

class Large : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("LOCKSTEP_LARGE_TESTS") == nullptr)
      LOCKSTEP_SKIP(memory) << "set LOCKSTEP_LARGE_TESTS=1; it needs 9 GB";
  }

  /// @param own_memory  whether the memory is the communicator's; otherwise it is the C library's
  static void check(Algorithm algorithm, bool own_memory) {
    World world;
    Progress progress({.spins_before_yield = 0});
    const auto c = plan_on(world.group(), progress, {.selection = collectives::forced({.algorithm = algorithm})});
    {
      const Allocation memory = own_memory ? c->allocate({large_elements}) : allocate_host({large_elements});
      auto* values = static_cast<std::uint8_t*>(memory.data());
      for (std::int64_t i = 0; i < large_elements; ++i)
        values[i] = static_cast<std::uint8_t>(i % period + world.rank().value);
      c->all_reduce(memory.as(DType::uint8), memory.as(DType::uint8), ReduceOp::sum).wait();
      const int p = world.size();
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < large_elements; ++i)
        wrong += values[i] != static_cast<std::uint8_t>(p * (i % period) + p * (p - 1) / 2);
      EXPECT_EQ(wrong, 0);
    }
    c->close();
    world.close();
  }
};

TEST_F(Large, InMemoryThatRanksShare) { check(Algorithm::shared_memory, true); }

TEST_F(Large, StagedThroughMemoryThatRanksShare) { check(Algorithm::shared_memory, false); }

TEST_F(Large, InMessages) { check(Algorithm::ring, false); }

}  // namespace
}  // namespace lockstep::backends
