// SPDX-License-Identifier: Apache-2.0
// Tests ranks that disagree in an operation in which no rank waits, for example because two ranks both act as the root
// and send a few bytes. The next operation reports it, or close() does, unless a rank is so slow that it hears of the
// difference in the operation itself.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/keep.hpp"
#include "backends/make_agreed.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep::backends {
namespace {

constexpr auto beyond_the_test = std::chrono::seconds(90);

enum class Library { plan, mpi_native };

class TwoRoots : public testing::TestWithParam<Library> {
 protected:
  TwoRoots() {
    if (GetParam() == Library::plan) {
      c_ = plan_on(
          world_.group(), *progress_,
          {.selection = collectives::forced({.algorithm = collectives::Algorithm::ring}), .deadline = beyond_the_test});
    } else {
      c_ = make_mpi_native(world_.group(), *progress_, {.deadline = beyond_the_test});
    }
  }
  /// Nothing is released, because messages may be under way.
  ~TwoRoots() override {
    barrier(world_.group());
    keep(std::move(c_));
    keep(std::move(progress_));
    keep(std::move(data_));
    world_.close();
  }
  [[nodiscard]] int rank() const { return world_.rank().value; }
  [[nodiscard]] int last() const { return world_.size() - 1; }
  [[nodiscard]] Buffer buffer() { return {data_.data(), {100}, DType::float32}; }

  /// After an agreed operation, runs one in which the last rank acts as the root, while the others take the first rank
  /// for it.
  /// @return the error, where this rank was so slow that it has heard of it already
  std::optional<Error> disagree() {
    c_->barrier().wait();
    auto error = error_of([this] { c_->broadcast(buffer(), {rank() == last() ? last() : 0}).wait(); });
    barrier(world_.group());
    return error;
  }
  void expect_right(const std::optional<Error>& error) const {
    ASSERT_TRUE(error) << "rank " << rank() << " goes on as if nothing had happened";
    EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
    EXPECT_NE(error->message().find("broadcast of 100 float32 from rank "), std::string::npos) << error->what();
    if (error->is_consequence()) return;
    const std::string ours = "broadcast of 100 float32 from rank " + std::to_string(rank() == last() ? last() : 0);
    const bool at_once = error->message().find("this rank calls " + ours) != std::string::npos;
    const std::string later = "this rank called " + ours + ", as operation 2 of this communicator";
    EXPECT_TRUE(at_once || error->message().find(later) != std::string::npos) << error->what();
    EXPECT_EQ(error->context().peers.size(), 1U) << error->what();
  }
  template <typename Act>
  static std::optional<Error> error_of(const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

  World world_;
  std::unique_ptr<Progress> progress_ = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  std::unique_ptr<Communicator> c_;
  std::vector<float> data_ = std::vector<float>(100);
};

/// The MPI library's own collectives cannot be inspected, so close() reports it there.
TEST_P(TwoRoots, AreNamedByTheNextOperation) {
  auto error = disagree();
  if (!error) {
    error = error_of([this] {
      c_->all_reduce(buffer(), buffer(), ReduceOp::sum).wait();
      if (GetParam() == Library::mpi_native) c_->close();
    });
  }
  expect_right(error);
}

TEST_P(TwoRoots, AreNamedByClose) {
  auto error = disagree();
  if (!error) error = error_of([this] { c_->close(); });
  expect_right(error);
}

/// One rank has called one operation more than another, which completed without the other.
TEST_P(TwoRoots, AndAnOperationThatSomeLeaveOutAreNoticedByClose) {
  if (rank() == 0) c_->broadcast(buffer(), {0}).wait();
  if (rank() == 0) c_->close();
  barrier(world_.group());
  if (rank() == 0) return;
  const auto error = error_of([this] { c_->close(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
  EXPECT_TRUE(error->is_consequence() || error->context().peers == std::vector{0}) << error->what();
}

INSTANTIATE_TEST_SUITE_P(, TwoRoots, testing::Values(Library::plan, Library::mpi_native), [](const auto& test) {
  return std::string(test.param == Library::plan ? "Plans" : "MpiLibrary");
});

}  // namespace
}  // namespace lockstep::backends
