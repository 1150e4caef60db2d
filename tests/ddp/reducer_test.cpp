// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/error.hpp"
#include "support/local.hpp"

namespace lockstep::ddp {
namespace {

constexpr BucketOptions smallest_buckets{.size = {256}, .first = {64}};

Layout three_tensors() {
  Layout layout;
  layout.add("conv.weight", {40});
  layout.add("conv.bias", {3});
  layout.add("fc.weight", {100});
  return layout;
}

using Body = std::function<void(int rank, Communicator&)>;

void run_ranks(int ranks, const Body& body, Observer* observer = nullptr) {
  const auto group = backends::make_local_group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress({.spins_before_yield = 0});
      const auto communicator =
          backends::make_local(group, {rank}, progress, {.selection = collectives::forced({}), .observer = observer});
      body(rank, *communicator);
      communicator->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
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
      [](int, Communicator& c) {
        const Layout layout = three_tensors();
        std::vector<float> gradients(static_cast<std::size_t>(layout.count().value));
        const Buffer flat{gradients.data(), layout.count(), DType::float32};
        Reducer reducer(c, layout, flat, smallest_buckets);
        for (const int tensor : {0, 1, 2}) reducer.ready(tensor);
        reducer.finish();
      },
      &names);
  ASSERT_EQ(names.names_.size(), 3U);
  EXPECT_EQ(names.names_[0], "bucket plan");
  EXPECT_EQ(names.names_[1], "bucket 0 (fc.weight)");
  EXPECT_EQ(names.names_[2], "bucket 1 (conv.weight … conv.bias)");
}

TEST(Reducer, RanksWithOtherBucketsAreNamedOnEveryRank) {
  run_ranks(4, [](int rank, Communicator& c) {
    const Layout layout = three_tensors();
    std::vector<float> gradients(static_cast<std::size_t>(layout.count().value));
    const Buffer flat{gradients.data(), layout.count(), DType::float32};
    BucketOptions options = smallest_buckets;
    if (rank == 2 || rank == 3) options.size = {1};
    try {
      const Reducer reducer(c, layout, flat, options);
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
