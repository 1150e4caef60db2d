// SPDX-License-Identifier: Apache-2.0
// A peer that does not answer: every rank that waits for it ends within 1.2 deadlines, with an error that says for
// what, or, if another one came to the deadline before, who that was.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/mpi_native.hpp"
#include "backends/mpi_plan.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "platform/mpi/bootstrap.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr std::chrono::duration<double> deadline = std::chrono::milliseconds(1500);
constexpr std::int64_t elements = 1 << 20;
constexpr Bytes segment{128 * 1024};  // far above any eager limit

struct Outcome {
  std::optional<Error> error;
  double seconds = 0;
};

/// What is under way stays so: requests and the memory they point to live until the process ends.
template <typename T>
void keep(T thing) {
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  kept->push_back(std::make_shared<T>(std::move(thing)));
}

/// Waits for `work` and says how it ended and how long the wait was.
Outcome outcome_of(Work& work) {
  const auto begin = Clock::now();
  Outcome outcome;
  try {
    work.wait();
  } catch (const Error& error) {
    outcome.error = error;
  }
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return outcome;
}

void expect_timeout(const Outcome& outcome, int self, int size, bool plan) {
  ASSERT_TRUE(outcome.error) << "the operation completed without its peer";
  const Error& error = *outcome.error;
  EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
  EXPECT_EQ(error.context().operation, "all_reduce");
  EXPECT_EQ(error.context().label, "layer3.weight");
  EXPECT_EQ(error.context().rank, self);
  EXPECT_FALSE(error.context().host.empty());
  EXPECT_LE(outcome.seconds, 4 * deadline.count());  // exactly in local_deadline_test, by a clock of its own
  if (error.is_consequence()) {
    EXPECT_NE(error.message().find("has given up: nothing has moved for"), std::string::npos) << error.what();
    return;
  }
  if (plan) {
    EXPECT_FALSE(error.context().peers.empty()) << error.what();
    for (const int peer : error.context().peers) {
      EXPECT_NE(peer, self);
      EXPECT_LT(peer, size);
    }
    EXPECT_TRUE(error.context().step) << error.what();
  }
  EXPECT_GE(outcome.seconds, deadline.count());
}

/// The silent rank stays away until the others have given up; they tell it over MPI_COMM_WORLD.
void wait_for_the_others(const World& world) { barrier(world.group()); }

class Deadline : public testing::TestWithParam<Algorithm> {};

TEST_P(Deadline, APeerThatNeverSubmits) {
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make_mpi_plan(
      world.group(), *progress,
      {.selection = collectives::forced({.algorithm = GetParam(), .segment = segment}), .deadline = deadline});
  const int silent = world.size() - 1;
  std::vector<float> data(elements, 1.0F);
  const Buffer buffer{data.data(), {elements}, DType::float32};
  if (world.rank().value != silent) {
    Work work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
    const Outcome outcome = outcome_of(work);
    expect_timeout(outcome, world.rank().value, world.size(), true);
    EXPECT_TRUE(world.size() > 2 || outcome.error->context().peers == std::vector{silent});
  }
  wait_for_the_others(world);
  keep(std::move(c));
  keep(std::move(progress));
  keep(std::move(data));
  world.close();
}

TEST_P(Deadline, APeerThatStopsBeforeItsKthStep) {
  World world;
  for (const int k : {2, 5}) {
    auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
    // Small blocks, so that ranks that share memory have so many steps too.
    auto c = make_mpi_plan(world.group(), *progress,
                           {.selection = collectives::forced({.algorithm = GetParam(), .segment = segment}),
                            .node = {.staging = {32 * 1024}},
                            .deadline = deadline});
    std::vector<float> data(elements, 1.0F);
    const Buffer buffer{data.data(), {elements}, DType::float32};
    Work work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
    if (world.rank().value == 0) {
      for (int moved = 0; moved < k - 1;) moved += progress->poll() ? 1 : 0;
    } else {
      expect_timeout(outcome_of(work), world.rank().value, world.size(), true);
    }
    wait_for_the_others(world);
    keep(std::move(c));
    keep(std::move(progress));
    keep(std::move(data));
    keep(std::move(work));
  }
  world.close();
}

// The other algorithms are in local_deadline_test, where nobody waits.
INSTANTIATE_TEST_SUITE_P(EitherMedium, Deadline, testing::Values(Algorithm::ring, Algorithm::shared_memory));

TEST(NativeDeadline, APeerThatNeverSubmits) {
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make_mpi_native(world.group(), *progress, {.deadline = deadline});
  std::vector<float> data(elements, 1.0F);
  const Buffer buffer{data.data(), {elements}, DType::float32};
  if (world.rank().value != world.size() - 1) {
    Work work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
    expect_timeout(outcome_of(work), world.rank().value, world.size(), false);
  }
  wait_for_the_others(world);
  keep(std::move(c));
  keep(std::move(progress));
  keep(std::move(data));
  world.close();
}

/// The second rank's function throws when it first gets a slice: all ranks end, long before the deadline, with what was
/// thrown.
void check_function_that_throws(const World& world, std::unique_ptr<Communicator> c,
                                std::unique_ptr<Progress> progress) {
  const bool throws = world.rank().value == 1;
  std::vector<float> data(elements, 1.0F);
  const Buffer buffer{data.data(), {elements}, DType::float32};
  const SliceFunction function = [throws](const ConstBuffer&, const Buffer&, Count) {
    if (throws) throw std::runtime_error("the loss scale is 0");
  };
  Work work = c->reduce_then(buffer, buffer, ReduceOp::sum, function, Queue::host(), "layer3.weight");
  const Outcome outcome = outcome_of(work);
  ASSERT_TRUE(outcome.error) << "completed without the results of a rank";
  const Error& error = *outcome.error;
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
  EXPECT_EQ(error.is_consequence(), !throws) << error.what();
  EXPECT_EQ(error.context().operation, "reduce_then");
  EXPECT_EQ(error.context().label, "layer3.weight");
  EXPECT_EQ(error.context().rank, world.rank().value);
  EXPECT_NE(error.message().find("the loss scale is 0"), std::string::npos) << error.what();
  EXPECT_LE(outcome.seconds, deadline.count()) << error.what();
  EXPECT_THROW((void)c->barrier(), Error) << "the communicator goes on";
  wait_for_the_others(world);
  keep(std::move(c));
  keep(std::move(progress));
  keep(std::move(data));
}

TEST_P(Deadline, AFunctionThatThrows) {
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make_mpi_plan(
      world.group(), *progress,
      {.selection = collectives::forced({.algorithm = GetParam(), .segment = segment}), .deadline = deadline});
  check_function_that_throws(world, std::move(c), std::move(progress));
  world.close();
}

TEST(NativeDeadline, AFunctionThatThrows) {
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make_mpi_native(world.group(), *progress, {.deadline = deadline});
  check_function_that_throws(world, std::move(c), std::move(progress));
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
