// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "nn/trainee.hpp"

namespace lockstep::nn {
namespace {

/// Simulates one other rank: its samples, and a state whose elements are all `mean`.
class OtherRank final : public StatisticsExchange {
 public:
  OtherRank(std::int64_t samples, double mean, std::int64_t total)
      : samples_(samples), share_(total == 0 ? 0 : mean * static_cast<double>(samples) / static_cast<double>(total)) {}

  void sum(Buffer buffer, Queue) override {
    ++calls;
    if (buffer.dtype == DType::int64) {
      ASSERT_EQ(buffer.count, Count{1});
      *static_cast<std::int64_t*>(buffer.data) += samples_;
      return;
    }
    ASSERT_EQ(buffer.dtype, DType::float64);
    auto* elements = static_cast<double*>(buffer.data);
    for (std::int64_t i = 0; i < buffer.count.value; ++i) elements[i] += share_;
  }
  int calls = 0;

 private:
  std::int64_t samples_;
  double share_;
};

void set(std::vector<double>& state, double value) { std::fill(state.begin(), state.end(), value); }

TEST(AverageState, WeighsRanksByTheirSamples) {
  Trainee trainee(make_model("resnet20", DataSpec::of_images(1, 8, 8, 2)));
  set(trainee.state, 2);
  OtherRank other(30, 6, 40);
  trainee.model.average_state(other, 10);
  EXPECT_EQ(trainee.state, std::vector<double>(trainee.state.size(), 5));
}

TEST(AverageState, ARankWithoutSamplesTakesTheOthers) {
  Trainee trainee(make_model("resnet20", DataSpec::of_images(1, 8, 8, 2)));
  set(trainee.state, std::numeric_limits<double>::quiet_NaN());
  OtherRank other(30, 6, 30);
  trainee.model.average_state(other, 0);
  EXPECT_EQ(trainee.state, std::vector<double>(trainee.state.size(), 6));
}

TEST(AverageState, WithoutAnySamplesNothingChanges) {
  Trainee trainee(make_model("resnet20", DataSpec::of_images(1, 8, 8, 2)));
  set(trainee.state, 2);
  OtherRank other(0, 6, 0);
  trainee.model.average_state(other, 0);
  EXPECT_EQ(trainee.state, std::vector<double>(trainee.state.size(), 2));
}

TEST(AverageState, AloneItChangesNoBit) {
  Trainee trainee(make_model("resnet20", DataSpec::of_images(1, 8, 8, 2)));
  trainee.step(wavy(3 * 64), cycling_labels(3, 2), 0.1);
  const std::vector<double> before = trainee.state;
  OtherRank nobody(0, 0, 7);
  trainee.model.average_state(nobody, 7);
  EXPECT_EQ(trainee.state, before);
}

TEST(AverageState, WithoutBatchNormNothingIsExchanged) {
  Trainee trainee(make_model("lenet", DataSpec::of_images(1, 8, 8, 2)));
  OtherRank other(1, 1, 2);
  trainee.model.average_state(other, 1);
  EXPECT_EQ(other.calls, 0);
  EXPECT_THROW(trainee.model.average_state(other, -1), Error);
}

}  // namespace
}  // namespace lockstep::nn
