// SPDX-License-Identifier: Apache-2.0
// Tests what ranks that share memory promise beyond the contract: a rank that calls something else is named before data
// change, a rank that does not come is named at the deadline, and MPI is not called.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "backends/make_agreed.hpp"
#include "backends/pmpi_counters.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep::backends {
namespace {

using namespace std::chrono_literals;

class SharedMemory : public testing::Test {
 protected:
  std::unique_ptr<Communicator> make(std::chrono::duration<double> deadline = 60s) {
    return plan_on(
        world_.group(), progress_,
        {.selection = collectives::forced({.algorithm = collectives::Algorithm::shared_memory}), .deadline = deadline});
  }
  void TearDown() override { world_.close(); }
  [[nodiscard]] bool is_last() const { return world_.rank() == world_.size() - 1; }

  World world_;
  Progress progress_{{.spins_before_yield = 0}};
};

/// Elements 0, 1, 2, … in a communicator's memory.
struct Counting {
  Counting(Communicator& c, std::int64_t count) : memory(c.allocate({count * 4})), view(memory.as(DType::int32)) {
    std::iota(begin(), begin() + count, 0);
  }
  [[nodiscard]] std::int32_t* begin() const { return static_cast<std::int32_t*>(view.data); }
  [[nodiscard]] bool is_untouched() const {
    for (std::int64_t i = 0; i < view.count.value; ++i)
      if (begin()[i] != i) return false;
    return true;
  }

  Allocation memory;
  Buffer view;
};

/// Returns the error of an operation; a success fails the test.
Error error_of(const std::function<Work()>& submit) {
  try {
    submit().wait();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::io, "nothing was thrown");
}

/// Returns whether this rank found `rank` at fault, or was notified by one that did.
bool names(const Error& error, int rank) {
  const std::vector<int>& peers = error.context().peers;
  return error.is_consequence() ? std::find(peers.begin(), peers.end(), rank) != peers.end()
                                : peers == std::vector{rank};
}

/// Most ranks call one operation, the last rank another. All detect it, and no data change.
void expect_mismatch(Communicator& c, bool is_last, const std::function<Work(Buffer)>& most,
                     const std::function<Work(Buffer)>& last, const std::string& word) {
  Counting data(c, 1 << 16);
  const Error error = error_of([&] { return is_last ? last(data.view) : most(data.view); });
  EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
  EXPECT_NE(error.message().find(word), std::string::npos) << error.what();
  const int odd = c.size() - 1;
  if (!is_last) {
    EXPECT_TRUE(names(error, odd)) << error.what();
  }
  EXPECT_TRUE(data.is_untouched());
  EXPECT_THROW((void)c.barrier(), Error) << "the ranks no longer agree about what has been done";
}

TEST_F(SharedMemory, NamesWhoCallsAnotherOperation) {
  const auto c = make();
  expect_mismatch(
      *c, is_last(), [&](Buffer b) { return c->all_reduce(b, b, ReduceOp::sum); },
      [&](Buffer b) { return c->broadcast(b, {0}); }, "broadcast");
}

TEST_F(SharedMemory, NamesWhoBringsAnotherCount) {
  const auto c = make();
  expect_mismatch(
      *c, is_last(), [&](Buffer b) { return c->all_reduce(b, b, ReduceOp::sum); },
      [&](Buffer b) { return c->all_reduce(slice(b, {0}, {40'000}), slice(b, {0}, {40'000}), ReduceOp::sum); },
      "40000");
}

TEST_F(SharedMemory, NamesWhoBringsAnotherDtypeOrOperator) {
  const auto as_float = [](Buffer b) { return Buffer{b.data, b.count, DType::float32, b.kind}; };
  const auto c = make();
  expect_mismatch(
      *c, is_last(), [&](Buffer b) { return c->all_reduce(b, b, ReduceOp::sum); },
      [&](Buffer b) { return c->all_reduce(as_float(b), as_float(b), ReduceOp::sum); }, "float32");
  const auto d = make();
  expect_mismatch(
      *d, is_last(), [&](Buffer b) { return d->all_reduce(b, b, ReduceOp::sum); },
      [&](Buffer b) { return d->all_reduce(b, b, ReduceOp::max); }, "max");
}

TEST_F(SharedMemory, NamesWhoGivesAnotherLabel) {
  const auto c = make();
  expect_mismatch(
      *c, is_last(), [&](Buffer b) { return c->all_reduce(b, b, ReduceOp::sum, Queue::host(), "weights"); },
      [&](Buffer b) { return c->all_reduce(b, b, ReduceOp::sum, Queue::host(), "biases"); }, "another label");
}

TEST_F(SharedMemory, NamesWhoDoesNotCome) {
  const auto c = make(200ms);
  Counting data(*c, 1 << 16);
  if (!is_last()) {
    const Error error = error_of([&] { return c->all_reduce(data.view, data.view, ReduceOp::sum); });
    EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
    EXPECT_TRUE(names(error, c->size() - 1)) << error.what();
  }
  barrier(world_.group());
}

TEST_F(SharedMemory, NamesWhoHasGivenUp) {
  auto c = make();
  Counting data(*c, 1 << 16);
  barrier(world_.group());
  if (is_last()) {
    c.reset();
  } else {
    const Error error = error_of([&] { return c->all_reduce(data.view, data.view, ReduceOp::sum); });
    EXPECT_EQ(error.code(), ErrorCode::transport) << error.what();
    EXPECT_TRUE(error.is_consequence()) << error.what();
    EXPECT_TRUE(names(error, c->size() - 1)) << error.what();
  }
  barrier(world_.group());
}

TEST_F(SharedMemory, CallsNothingOfMpiOnceItIsMade) {
  const auto c = make();
  for (const std::int64_t count : {1, 100, 10'000, 1'000'000}) {
    Counting own(*c, count);
    std::vector<std::int32_t> ordinary(static_cast<std::size_t>(count), 1);
    pmpi::reset();
    c->all_reduce(own.view, own.view, ReduceOp::max).wait();
    const Buffer user{ordinary.data(), {count}, DType::int32};
    c->all_reduce(user, user, ReduceOp::sum).wait();
    c->broadcast(own.view, {0}).wait();
    c->barrier().wait();
    const pmpi::Counters seen = pmpi::counters();
    EXPECT_EQ(seen.collectives + seen.messages_sent + seen.messages_received, 0);
    EXPECT_TRUE(own.is_untouched()) << "the largest of equal numbers is the same number";
    EXPECT_EQ(ordinary.back(), c->size());
  }
  c->close();
}

TEST_F(SharedMemory, AllocatesWhatTheOthersSee) {
  const auto c = make();
  EXPECT_EQ(c->allocate({100}).kind(), MemoryKind::shared);
  c->barrier().wait();
  c->close();
}

}  // namespace
}  // namespace lockstep::backends
