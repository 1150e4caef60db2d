// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/reducer.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/backends/local.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/arena.hpp"

namespace lockstep::ddp {
namespace {

constexpr BucketOptions small_buckets{.size = {256}, .first = {64}};

Layout three_tensors() {
  Layout layout;
  layout.add("conv.weight", {40});
  layout.add("conv.bias", {3});
  layout.add("fc.weight", {100});
  return layout;
}

using Body = std::function<void(int rank, Communicator&, Progress&)>;

void run_ranks(int ranks, const Body& body, Observer* observer = nullptr) {
  const auto group = backends::make_local_group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress({.spins_before_yield = 0});
      const auto communicator =
          backends::make_local(group, {rank}, progress, {.selection = collectives::forced({}), .observer = observer});
      body(rank, *communicator, progress);
      communicator->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void write_gradients(const Arena& arena, int value) {
  auto* gradients = static_cast<float*>(arena.gradients().data);
  for (std::int64_t i = 0; i < arena.layout().count().value; ++i) gradients[i] = static_cast<float>(value + i % 5);
}

TEST(Reducer, SumsOverRanksStepAfterStepWhateverTheOrderOfReadiness) {
  run_ranks(3, [](int rank, Communicator& c, Progress& progress) {
    const Arena arena(three_tensors(), DType::float32, c);
    Reducer reducer(c, progress, arena.layout(), arena.gradients(), small_buckets);
    ASSERT_GT(reducer.buckets().size(), 1U);
    const std::vector<std::vector<int>> orders = {{2, 1, 0}, {0, 1, 2}, {1, 2, 0}};
    for (int step = 0; step < 3; ++step) {
      write_gradients(arena, rank * 10 + step);
      for (const int tensor : orders[static_cast<std::size_t>((rank + step) % 3)]) {
        reducer.ready(tensor);
        reducer.progress();
      }
      reducer.finish();
      const auto* sums = static_cast<const float*>(arena.gradients().data);
      for (std::int64_t i = 0; i < arena.layout().count().value; ++i) {
        ASSERT_EQ(sums[i], static_cast<float>(30 + 3 * step + 3 * (i % 5)));
      }
    }
    EXPECT_GE(reducer.exposed_seconds(), 0.0);
  });
}

class Names : public Observer {
 public:
  void span(const Span& span) override {
    const std::scoped_lock lock(mutex_);
    names_.emplace_back(span.name);
  }
  std::vector<std::string> names_;

 private:
  std::mutex mutex_;
};

TEST(Reducer, LaunchesBucketsInTheirOrder) {
  Names names;
  run_ranks(
      1,
      [](int, Communicator& c, Progress& progress) {
        const Arena arena(three_tensors(), DType::float32, c);
        Reducer reducer(c, progress, arena.layout(), arena.gradients(), small_buckets);
        for (const int tensor : {0, 1, 2}) reducer.ready(tensor);
        reducer.finish();
      },
      &names);
  ASSERT_EQ(names.names_.size(), 3U);
  EXPECT_EQ(names.names_[0], "bucket plan");
  EXPECT_EQ(names.names_[1], "bucket 0 (fc.weight)");
  EXPECT_EQ(names.names_[2], "bucket 1 (conv.weight … conv.bias)");
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Reducer, NamesTensorsThatCameTwiceOrNotAtAll) {
  run_ranks(1, [](int, Communicator& c, Progress& progress) {
    const Arena arena(three_tensors(), DType::float32, c);
    Reducer reducer(c, progress, arena.layout(), arena.gradients(), small_buckets);
    reducer.ready(1);
    EXPECT_NE(message_of([&] { reducer.ready(1); }).find("'conv.bias' became ready twice"), std::string::npos);
    EXPECT_NE(message_of([&] { reducer.finish(); }).find("no gradient came for 'conv.weight', 'fc.weight'"),
              std::string::npos);
  });
}

TEST(Reducer, RanksWithOtherBucketsAreNamedOnEveryRank) {
  run_ranks(4, [](int rank, Communicator& c, Progress& progress) {
    const Arena arena(three_tensors(), DType::float32, c);
    BucketOptions options = small_buckets;
    if (rank == 2 || rank == 3) options.size = {1};
    try {
      const Reducer reducer(c, progress, arena.layout(), arena.gradients(), options);
      ADD_FAILURE() << "rank " << rank << " saw no difference";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_EQ(error.context().peers, (std::vector<int>{2, 3}));
      EXPECT_TRUE(error.is_on_every_rank());
    }
  });
}

}  // namespace
}  // namespace lockstep::ddp
