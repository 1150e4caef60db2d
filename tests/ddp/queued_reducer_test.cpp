// SPDX-License-Identifier: Apache-2.0
// Tests a reducer whose operations run on a queue: steps follow each other, and the host waits for none.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/back_end.hpp"
#include "comm/operation.hpp"
#include "ddp/model.hpp"
#include "ddp/reducer.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ddp {
namespace {

class Queued : public Operation {
 public:
  explicit Queued(int& held_back) : held_back_(&held_back) {}
  bool order_after(Queue /*queue*/) override {
    ++*held_back_;
    return true;
  }
  void end() { complete(); }
  void end_by(const Error& error) { fail(std::make_exception_ptr(error)); }

 private:
  int* held_back_;
};

/// One rank, whose all-reduces complete at the next poll after the test allows it.
class OnAQueue : public BackEnd, private ProgressSource {
 public:
  explicit OnAQueue(Progress& progress) : BackEnd({0}, 1), progress_(&progress) { progress.add(*this); }
  ~OnAQueue() override { progress_->remove(*this); }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  void abort(std::string_view /*why*/) noexcept override {}
  void close() override {}
  Work submit(const Collective& c) override {
    auto operation = std::make_shared<Queued>(held_back);
    if (c.kind == CollectiveKind::all_reduce) {
      operations.push_back(operation);
    } else {
      std::memcpy(c.out.data, c.in.data, static_cast<std::size_t>(c.in.bytes().value));
      operation->end();
    }
    return {operation, *progress_};
  }

  std::vector<std::shared_ptr<Queued>> operations;
  bool is_let_go = false;
  int held_back = 0;  // number of queues that were held back

 private:
  bool progress() noexcept override {
    if (!is_let_go) return false;
    for (const auto& operation : operations)
      if (operation->state() == Operation::State::pending) operation->end();
    return true;
  }
  [[nodiscard]] bool idle() const noexcept override { return false; }

  Progress* progress_;
  Capabilities capabilities_{.backend = "on a queue", .device_memory = true};
};

class QueuedReducer : public testing::Test {
 protected:
  QueuedReducer() { reducer_.emplace(communicator_, layout_, gradients_, BucketOptions{.size = {256}, .first = {64}}); }
  Reducer& reducer() { return *reducer_; }
  OnAQueue& communicator() { return static_cast<OnAQueue&>(back_end_of(communicator_)); }
  [[nodiscard]] Queue queue() { return Queue::stream(&stream_); }
  [[nodiscard]] int notices() const { return notices_; }
  void end() { reducer_.reset(); }

  void step() {
    for (const int tensor : {2, 1, 0}) reducer().ready(tensor, queue());
    reducer().order_before(queue());
  }

 private:
  int stream_ = 0;
  int notices_ = 0;
  Progress progress_{{}, nullptr, [this](std::string_view) { ++notices_; }};
  Communicator communicator_{std::make_unique<OnAQueue>(progress_)};
  Layout layout_ = testing_support::layout();
  std::vector<float> memory_ = std::vector<float>(static_cast<std::size_t>(layout_.count().value));
  Buffer gradients_{memory_.data(), layout_.count()};
  std::optional<Reducer> reducer_;
};

TEST_F(QueuedReducer, GoesOnWithoutTheHost) {
  for (int i = 0; i < 3; ++i) step();
  const std::size_t buckets = reducer().buckets().size();
  ASSERT_GT(buckets, 1U);
  EXPECT_EQ(communicator().operations.size(), 3 * buckets);
  EXPECT_EQ(communicator().held_back, static_cast<int>(3 * buckets)) << "the queue waits for each";
  EXPECT_EQ(communicator().operations.front()->state(), Operation::State::pending);
  communicator().is_let_go = true;
  end();
  EXPECT_EQ(notices(), 0) << "what has ended meanwhile was not destroyed too early";
}

TEST_F(QueuedReducer, WaitsForEarlierStepsWhenTheHostWaits) {
  step();
  for (const int tensor : {2, 1, 0}) reducer().ready(tensor, queue());
  communicator().is_let_go = true;
  reducer().finish();
  for (const auto& operation : communicator().operations) EXPECT_EQ(operation->state(), Operation::State::done);
  EXPECT_EQ(notices(), 0);
}

TEST_F(QueuedReducer, SaysLaterWhatHasFailed) {
  step();
  communicator().operations.front()->end_by(Error(ErrorCode::transport, "the peer is gone"));
  try {
    step();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "the peer is gone");
  }
  communicator().is_let_go = true;
}

TEST_F(QueuedReducer, ForgetsWhatHasFailedWhereItMovesOn) {
  step();
  communicator().operations.back()->end_by(Error(ErrorCode::transport, "the peer is gone"));
  communicator().is_let_go = true;
  reducer().settle();
  step();
  EXPECT_EQ(notices(), 0);
}

TEST_F(QueuedReducer, GivesNoticeOfWhatIsLeftUnderWay) {
  step();
  end();
  EXPECT_EQ(notices(), static_cast<int>(communicator().operations.size()));
}

/// For the host, the operations of a captured step end as failures, because no Work waits for them.
TEST_F(QueuedReducer, HasNothingToWaitForOfACapturedStep) {
  for (const int tensor : {2, 1, 0}) reducer().ready(tensor, queue());
  for (const auto& operation : communicator().operations)
    operation->end_by(Error(ErrorCode::invalid_argument, "in a graph"));
  reducer().order_before(queue());
  EXPECT_EQ(communicator().held_back, static_cast<int>(communicator().operations.size()));
  communicator().is_let_go = true;
  step();
  end();
  EXPECT_EQ(notices(), 0);
}

}  // namespace
}  // namespace lockstep::ddp
