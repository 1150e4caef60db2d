// SPDX-License-Identifier: Apache-2.0
// Tests a peer that does not answer. Every rank that waits for it ends at the deadline, but not before, with an error
// that says what it waited for, or, if another rank reached its deadline first, which rank that was. Time passes as
// ranks poll in vain, so the test itself does not wait; local_deadline_test measures how soon after the deadline they
// end.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/keep.hpp"
#include "backends/make_agreed.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "comm/operation.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr std::chrono::duration<double> deadline = std::chrono::minutes(5);
constexpr std::int64_t elements = 1 << 20;
constexpr Bytes segment{128 * 1024};  // far above any eager limit

/// A clock that advances by a second whenever its rank has polled in vain, after it was started by this rank or by rank
/// 0. Before that, while ranks have to wait for others, it almost stands still.
class VainPolls final : public TimeSource {
 public:
  Clock::time_point now() override { return now_; }
  void yield() override {
    std::this_thread::yield();
    tick();
  }
  bool sleep(ProgressSource& source, std::chrono::nanoseconds /*at_most*/) override {
    const bool slept = source.sleep(std::chrono::milliseconds(1));
    tick();
    return slept;
  }
  void run() { runs_ = true; }
  /// Starts the clocks of all other ranks, from rank 0.
  static void start(const World& world) {
    for (int rank = 1; rank < world.size(); ++rank) MPI_Send(nullptr, 0, MPI_BYTE, rank, start_tag, MPI_COMM_WORLD);
  }
  /// Takes the message of start() where this rank has failed before it came, so that it starts no later clock.
  void finish() {
    if (!runs_) take_start();
  }

 private:
  static constexpr int start_tag = 77;
  void tick() {
    if (!runs_) runs_ = has_been_started();
    now_ += runs_ ? std::chrono::microseconds(1'000'000) : std::chrono::microseconds(10);
  }
  static void take_start() { MPI_Recv(nullptr, 0, MPI_BYTE, 0, start_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
  static bool has_been_started() {
    int has_come = 0;
    MPI_Iprobe(0, start_tag, MPI_COMM_WORLD, &has_come, MPI_STATUS_IGNORE);
    if (has_come != 0) take_start();
    return has_come != 0;
  }

  bool runs_ = false;
  Clock::time_point now_;
};

/// A rank's clock and progress, which live as long as the operations under way.
struct Waiting {
  VainPolls time;
  Progress progress{{.spins_before_yield = 0}, &time};
};

struct Outcome {
  std::optional<Error> error;
  std::chrono::duration<double> waited{};  // by the rank's clock
};

/// Waits for the operation that `submit` returns. @return its outcome and the duration of the wait
template <typename Submit>
Outcome outcome_of(const Submit& submit, Progress& progress) {
  const auto begin = progress.now();
  Outcome outcome;
  try {
    submit().wait();
  } catch (const Error& error) {
    outcome.error = error;
  }
  outcome.waited = progress.now() - begin;
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
    EXPECT_TRUE(error.context().action) << error.what();
  }
  EXPECT_GE(outcome.waited, deadline);
}

/// The silent rank waits until the others have given up, which it learns over MPI_COMM_WORLD.
void wait_for_the_others(const World& world) { barrier(world.group()); }

class Deadline : public testing::TestWithParam<std::pair<Algorithm, Sockets>> {};

TEST_P(Deadline, APeerThatNeverSubmits) {
  World world;
  auto waiting = std::make_unique<Waiting>();
  auto c = plan_on(world.group(), waiting->progress,
                   {.selection = collectives::forced({.algorithm = GetParam().first, .segment = segment}),
                    .sockets = GetParam().second,
                    .deadline = deadline});
  const int silent = world.size() - 1;
  std::vector<float> data(elements, 1.0F);
  const Buffer buffer{data.data(), {elements}, DType::float32};
  if (world.rank() != silent) {
    const auto submit = [&] {
      Work work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
      barrier(world.group());  // so that no rank gives up before all have submitted
      waiting->time.run();
      return work;
    };
    const Outcome outcome = outcome_of(submit, waiting->progress);
    expect_timeout(outcome, world.rank().value, world.size(), true);
    EXPECT_TRUE(world.size() > 2 || outcome.error->context().peers == std::vector{silent});
  } else {
    barrier(world.group());
  }
  wait_for_the_others(world);
  keep(std::move(c));
  keep(std::move(waiting));
  keep(std::move(data));
  world.close();
}

TEST_P(Deadline, APeerThatStopsBeforeItsKthStep) {
  World world;
  for (const int k : {2, 5}) {
    auto waiting = std::make_unique<Waiting>();
    // Small blocks give ranks that share memory as many steps.
    auto c = plan_on(world.group(), waiting->progress,
                     {.selection = collectives::forced({.algorithm = GetParam().first, .segment = segment}),
                      .node = {.staging = {32 * 1024}},
                      .sockets = GetParam().second,
                      .deadline = deadline});
    std::vector<float> data(elements, 1.0F);
    const Buffer buffer{data.data(), {elements}, DType::float32};
    Work work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
    barrier(world.group());  // so that no rank gives up before all have submitted
    if (world.rank() == 0) {
      for (int moved = 0; moved < k - 1;) moved += waiting->progress.poll() ? 1 : 0;
      VainPolls::start(world);
    } else {
      expect_timeout(outcome_of([&]() -> Work& { return work; }, waiting->progress), world.rank().value, world.size(),
                     true);
      waiting->time.finish();
    }
    wait_for_the_others(world);
    keep(std::move(c));
    keep(std::move(waiting));
    keep(std::move(data));
    keep(std::move(work));
  }
  world.close();
}

// local_deadline_test, which does not wait, covers the other algorithms.
INSTANTIATE_TEST_SUITE_P(EveryMedium, Deadline,
                         testing::Values(std::pair(Algorithm::ring, Sockets::automatic),
                                         std::pair(Algorithm::ring, Sockets::everywhere),
                                         std::pair(Algorithm::shared_memory, Sockets::automatic)));

TEST(NativeDeadline, APeerThatNeverSubmits) {
  World world;
  auto waiting = std::make_unique<Waiting>();
  auto c = make_mpi_native(world.group(), waiting->progress, {.deadline = deadline});
  std::vector<float> data(elements, 1.0F);
  const Buffer buffer{data.data(), {elements}, DType::float32};
  if (world.rank() != world.size() - 1) {
    const auto submit = [&] {
      Work work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer3.weight");
      barrier(world.group());  // so that no rank gives up before all have submitted
      waiting->time.run();
      return work;
    };
    expect_timeout(outcome_of(submit, waiting->progress), world.rank().value, world.size(), false);
  } else {
    barrier(world.group());
  }
  wait_for_the_others(world);
  keep(std::move(c));
  keep(std::move(waiting));
  keep(std::move(data));
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
