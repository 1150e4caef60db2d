// SPDX-License-Identifier: Apache-2.0
// A failure of one rank ends the operations of all, in time, with an error that names the rank. Ranks are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backends/contract/values.hpp"
#include "emulated_gpu/lockstep/outcome.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"
#include "platform/gpu/cuda.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using backends::NcclAlgorithm;
using namespace std::chrono_literals;

constexpr int failing_ranks = 3;
constexpr int culprit = 1;
using Seconds = std::chrono::duration<double>;
constexpr Seconds deadline = 1s;   ///< for tests that reach it
constexpr Seconds far_away = 60s;  ///< for tests that must not reach it
/// The time in which others are notified without waiting for the deadline, on a busy machine.
constexpr double soon = 10;

/// One rank with a communicator and memory. It stays after a failure, because GPUs may still be using its memory.
class Rank3 {
 public:
  Rank3(Ranks& all, NcclAlgorithm algorithm, Checked checked, Seconds patience)
      : communicator_(all.make(progress_, {.algorithm = algorithm, .deadline = patience}, checked)),
        memory_(communicator_->allocate({1 << 16})) {}
  Communicator& communicator() { return *communicator_; }
  Progress& progress() { return progress_; }
  [[nodiscard]] Buffer buffer(std::int64_t count = 1000) const {
    return slice(memory_.as(DType::float32), {0}, {count});
  }
  void destroy_communicator() { communicator_.reset(); }
  Work add_up(std::int64_t count = 1000) {
    return communicator_->all_reduce(buffer(count), buffer(count), ReduceOp::max);
  }

 private:
  Progress progress_{{.spins_before_yield = 0}};
  std::unique_ptr<Communicator> communicator_;
  Allocation memory_;
};

class Failure : public testing::TestWithParam<NcclAlgorithm> {
 protected:
  /// Each rank makes one all-reduce, and then calls the body. @return the outcome, by rank
  static std::vector<Outcome> run(const std::function<void(Ranks&, Rank3&)>& body, Checked checked = Checked::no,
                                  Seconds patience = far_away) {
    std::vector<Outcome> outcomes(failing_ranks);
    on_threads(failing_ranks, [&](Ranks& all) {
      auto me = std::make_unique<Rank3>(all, GetParam(), checked, patience);
      me->add_up().wait();
      all.meet();
      outcomes[static_cast<std::size_t>(all.rank())] = outcome_of([&] { body(all, *me); });
      all.meet();
      static_cast<void>(me.release());
    });
    return outcomes;
  }
  static void expect_all_name_the_culprit(const std::vector<Outcome>& outcomes, double within) {
    for (int rank = 0; rank < failing_ranks; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(outcome.names(culprit)) << "rank " << rank << " " << outcome;
      EXPECT_LT(outcome.seconds, within) << "rank " << rank << " " << outcome;
    }
  }
};

TEST_P(Failure, ARankThatNeverSubmitsIsNamedAtTheDeadline) {
  std::atomic<int> given_up = 0;
  const auto outcomes = run(
      [&](Ranks& all, Rank3& me) {
        // It comes after the others have given up, however slowly this machine lets them poll.
        const auto end = Clock::now() + std::chrono::seconds(20);
        while (all.rank() == culprit && given_up < failing_ranks - 1 && Clock::now() < end)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        try {
          me.add_up().wait();
        } catch (const Error&) {
          ++given_up;
          throw;
        }
      },
      Checked::no, deadline);
  expect_all_name_the_culprit(outcomes, 20);  // it takes 1.2 deadlines if ranks can poll
  EXPECT_TRUE(outcomes[0].failed_by(ErrorCode::timeout) || outcomes[2].failed_by(ErrorCode::timeout)) << outcomes[0];
}

TEST_P(Failure, AnAbortReachesAll) {
  const auto outcomes = run([](Ranks& all, Rank3& me) {
    if (all.rank() == culprit) me.communicator().abort("enough");
    me.add_up().wait();
  });
  expect_all_name_the_culprit(outcomes, soon);
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.failed_by(ErrorCode::transport)) << outcome;
    EXPECT_NE(outcome.error->message().find("enough"), std::string::npos) << outcome;
  }
}

TEST_P(Failure, AnAbortFromAnotherThreadEndsWhatIsUnderWay) {
  const auto outcomes = run([](Ranks& all, Rank3& me) {
    if (all.rank() != culprit) return me.add_up().wait();
    std::thread([&] { me.communicator().abort("enough"); }).join();
    me.communicator().barrier().wait();
  });
  expect_all_name_the_culprit(outcomes, soon);
}

TEST_P(Failure, ACommunicatorThatIsDestroyedIsNoticed) {
  const auto outcomes = run([](Ranks& all, Rank3& me) {
    if (all.rank() != culprit) return me.add_up().wait();
    me.destroy_communicator();
    throw Error(ErrorCode::io, "a disk is full", {.rank = culprit});
  });
  expect_all_name_the_culprit(outcomes, soon);
}

TEST_P(Failure, ARankThatClosesEarlyIsAMismatch) {
  const auto outcomes = run([](Ranks& all, Rank3& me) {
    if (all.rank() != culprit) return me.add_up().wait();
    me.communicator().close();
  });
  for (const int rank : {0, 2}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome.names(culprit)) << outcome;
    EXPECT_TRUE(outcome.failed_by(ErrorCode::mismatch)) << outcome;
    EXPECT_LT(outcome.seconds, soon) << outcome;
  }
}

TEST_P(Failure, AnotherCallIsAMismatchOnAllWhereRanksCompare) {
  const auto outcomes =
      run([](Ranks& all, Rank3& me) { me.add_up(all.rank() == culprit ? 999 : 1000).wait(); }, Checked::yes);
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.failed_by(ErrorCode::mismatch)) << outcome;
    EXPECT_LT(outcome.seconds, soon) << outcome;
  }
}

/// A rank whose operation waits behind a stream is not late.
TEST_P(Failure, TimeInWhichTheStreamHoldsTheOperationBackDoesNotCount) {
  auto until = Clock::now() + std::chrono::hours(1);
  const auto outcomes = run(
      [&](Ranks& all, Rank3& me) {
        select_gpu(all.gpu());
        Stream stream;
        if (all.rank() == 0) until = Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline * 1.3);
        all.meet();
        const auto be_long = [](void* end) { std::this_thread::sleep_until(*static_cast<Clock::time_point*>(end)); };
        LOCKSTEP_CUDA_CHECK(cudaLaunchHostFunc(cuda_stream(stream.queue()), be_long, &until));
        me.communicator().all_reduce(me.buffer(), me.buffer(), ReduceOp::max, stream.queue()).wait();
        me.communicator().close();
      },
      Checked::no, deadline);
  for (const Outcome& outcome : outcomes) {
    EXPECT_FALSE(outcome.error) << outcome;
    EXPECT_GE(outcome.seconds, deadline.count()) << outcome;
  }
}

/// Later operations throw the same error, on all ranks.
TEST_P(Failure, PoisonsTheCommunicator) {
  const auto outcomes = run([](Ranks& all, Rank3& me) {
    if (all.rank() == culprit) me.communicator().abort("enough");
    EXPECT_TRUE(outcome_of([&] { me.add_up().wait(); }).error);
    EXPECT_TRUE(outcome_of([&] { (void)me.communicator().barrier(); }).names(culprit));
    me.communicator().close();
  });
  expect_all_name_the_culprit(outcomes, soon);
}

TEST_P(Failure, AnErrorThatTheProgramHasNotLookedAtIsNotTheOperations) {
  const auto outcomes = run([](Ranks&, Rank3& me) {
    EXPECT_NE(cudaSetDevice(99), cudaSuccess);
    me.add_up().wait();
    me.communicator().close();
  });
  for (const Outcome& outcome : outcomes) EXPECT_FALSE(outcome.error) << outcome;
}

TEST_P(Failure, OutOfMemoryIsAnErrorAndTheCommunicatorGoesOn) {
  const auto outcomes = run([](Ranks& all, Rank3& me) {
    if (all.rank() == culprit) {
      const Outcome refused = outcome_of([&] { (void)me.communicator().allocate({std::int64_t{1} << 40}); });
      EXPECT_TRUE(refused.names(culprit)) << refused;
      EXPECT_TRUE(
          outcome_of([] { (void)allocate_device({std::int64_t{1} << 40}); }).failed_by(ErrorCode::out_of_memory));
    }
    me.add_up().wait();
    me.communicator().close();
  });
  for (const Outcome& outcome : outcomes) EXPECT_FALSE(outcome.error) << outcome;
}

INSTANTIATE_TEST_SUITE_P(, Failure, testing::Values(NcclAlgorithm::automatic, NcclAlgorithm::tree_order),
                         [](const auto& parameter) {
                           return parameter.param == NcclAlgorithm::automatic ? "NcclsOwn" : "TreeOrder";
                         });

}  // namespace
}  // namespace lockstep::on_emulated_gpus
