// SPDX-License-Identifier: Apache-2.0
// Tests the promises of Work, with ranks on one thread.
#include "lockstep/comm/work.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "support/errors.hpp"
#include "support/one_thread.hpp"

namespace lockstep::backends {
namespace {

using std::chrono::seconds;

/// Two ranks, each with one number.
struct Pair {
  Work submit(int rank) {
    const Buffer buffer{&values[static_cast<std::size_t>(rank)], {1}, DType::float32};
    return ranks[rank].all_reduce(buffer, buffer, ReduceOp::sum);
  }

  std::array<float, 2> values{1, 2};
  std::vector<std::string> notices;
  OneThread ranks{{{0, 0}},
                  {.selection = collectives::forced({.algorithm = collectives::Algorithm::shared_memory})},
                  std::chrono::milliseconds(5),
                  [this](std::string_view text) { notices.emplace_back(text); }};
};

TEST(Work, ALoopOverTestEnds) {
  Pair pair;
  Work first = pair.submit(0);
  EXPECT_FALSE(first.test());
  Work second = pair.submit(1);
  while (!first.test() || !second.test()) {
  }
  EXPECT_EQ(pair.values, (std::array<float, 2>{3, 3}));
}

TEST(Work, IsWaitedForNoLongerThanAsked) {
  Pair pair;
  Work first = pair.submit(0);
  const auto begin = pair.ranks.now();
  EXPECT_FALSE(first.wait(seconds(10)));
  EXPECT_GE(pair.ranks.now() - begin, seconds(10));
  EXPECT_LE(pair.ranks.now() - begin, seconds(11));
  Work second = pair.submit(1);
  EXPECT_TRUE(first.wait(std::chrono::duration<double>::max()));
  EXPECT_TRUE(second.wait(seconds(0)));
  EXPECT_EQ(pair.values[0], 3);
}

TEST(Work, OutlivesItsCommunicatorAndFails) {
  Pair pair;
  Work work = pair.submit(0);
  pair.ranks.communicators[0].reset();
  ASSERT_EQ(pair.notices.size(), 1U);
  EXPECT_NE(pair.notices[0].find("rank 0: a communicator (local) was destroyed without close()"), std::string::npos);
  try {
    work.wait();
    FAIL() << "nobody moved it, and it ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::transport);
    EXPECT_EQ(error.context().rank, 0);
    EXPECT_NE(error.message().find("destroyed before close()"), std::string::npos) << error.what();
  }
}

TEST(Work, IsNotRemarkedOnWhereAnExceptionIsUnderWay) {
  Pair pair;
  try {
    const Work work = pair.submit(0);
    throw std::runtime_error("of the program");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(pair.notices.empty()) << pair.notices.front();
  }
  Work theirs = pair.submit(1);
  theirs.wait();
}

TEST(Communicator, IsNotRemarkedOnAfterAnErrorThatTheProgramHasGot) {
  Pair pair;
  Work work = pair.submit(0);
  pair.ranks[1].abort("the loss is not a number");
  EXPECT_THROW(work.wait(), Error);
  pair.ranks.communicators[0].reset();
  EXPECT_TRUE(pair.notices.empty()) << pair.notices.front();
}

TEST(Prepared, IsRefusedASecondStartBeforeTheFirstHasEnded) {
  Pair pair;
  const Buffer buffer{pair.values.data(), {1}, DType::float32};
  Prepared prepared = pair.ranks[0].prepare_all_reduce(buffer, buffer, ReduceOp::sum);
  prepared.start();
  try {
    prepared.start();
    FAIL() << "it was started twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(error.message().find("still under way"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(prepared.wait(seconds(1)));
  pair.submit(1).wait();
  prepared.wait();
  EXPECT_EQ(pair.values, (std::array<float, 2>{3, 3}));
}

TEST(Work, IsNotDroppedInSilenceByAnAssignment) {
  Pair pair;
  Work work = pair.submit(0);
  Work next = pair.submit(0);
  work = std::move(next);
  ASSERT_EQ(pair.notices.size(), 1U);
  EXPECT_NE(pair.notices[0].find("before it was waited for"), std::string::npos) << pair.notices[0];
  Work theirs = pair.submit(1);
  Work last = pair.submit(1);
  work.wait();
  theirs.wait();
  last.wait();
  EXPECT_EQ(pair.values[0], 6);
}

TEST(FailedOperation, IsThrownByEveryCallThatWaitsForIt) {
  Pair pair;
  const Buffer buffer{pair.values.data(), {1}, DType::float32};
  Work work = pair.submit(0);
  Prepared prepared = pair.ranks[0].prepare_all_reduce(buffer, buffer, ReduceOp::sum);
  prepared.start();
  pair.ranks[1].abort("the loss is not a number");
  const auto expect_failure = [](const auto& call) {
    expect_error(call, ErrorCode::transport, {"the loss is not a number"});
  };
  expect_failure([&] { work.wait(); });
  expect_failure([&] { (void)work.wait(seconds(1)); });
  expect_failure([&] { work.order_before(Queue::host()); });
  expect_failure([&] { prepared.wait(); });
  expect_failure([&] { (void)prepared.wait(seconds(1)); });
  expect_failure([&] { prepared.order_before(Queue::host()); });
  expect_failure([&] { prepared.start(); });
  expect_failure([&] { (void)pair.ranks[0].barrier(); });
  expect_failure([&] { pair.ranks[0].send_recv(buffer, Rank{1}, buffer, Rank{1}); });
  expect_failure([&] { pair.ranks[0].close(); });
}

TEST(FailedOperation, OfAMessageIsThrownByTheCallThatWaitsForBoth) {
  Pair pair;
  const Buffer buffer{pair.values.data(), {1}, DType::float32};
  const auto exchange = [&] { pair.ranks[0].send_recv(buffer, std::nullopt, buffer, Rank{1}); };
  expect_error(exchange, ErrorCode::timeout);
}

}  // namespace
}  // namespace lockstep::backends
