// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/plan/step_plan.hpp"
#include "nn/run/prepared_graph.hpp"

namespace lockstep::nn {
namespace {

void expect_no_overlap(std::span<const Lifetime> buffers, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    const std::int64_t end = plan.offsets[a].value + buffers[a].bytes.value;
    EXPECT_EQ(plan.offsets[a].value % 64, 0);
    EXPECT_LE(end, plan.total.value);
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
      const bool apart =
          end <= plan.offsets[b].value || plan.offsets[b].value + buffers[b].bytes.value <= plan.offsets[a].value;
      EXPECT_TRUE(!together || apart) << "buffers " << a << " and " << b;
    }
  }
}

std::int64_t sum_of_bytes(std::span<const Lifetime> buffers) {
  std::int64_t sum = 0;
  for (const Lifetime& buffer : buffers) sum += buffer.bytes.value;
  return sum;
}

TEST(MemoryPlan, BuffersThatFollowEachOtherShareMemory) {
  const std::vector<Lifetime> buffers{{{300}, 0, 1}, {{300}, 1, 2}, {{300}, 2, 3}, {{300}, 3, 4}};
  const MemoryPlan plan = plan_memory(buffers);
  expect_no_overlap(buffers, plan);
  EXPECT_EQ(plan.total, Bytes{2 * 512});
}

TEST(MemoryPlan, SmallBuffersFillGapsBetweenLargeOnes) {
  const std::vector<Lifetime> buffers{{{2560}, 0, 9}, {{1280}, 0, 4}, {{1280}, 5, 9}, {{256}, 0, 9}};
  const MemoryPlan plan = plan_memory(buffers);
  expect_no_overlap(buffers, plan);
  EXPECT_EQ(plan.total, Bytes{2560 + 1280 + 256});
}

TEST(MemoryPlan, OfNothingIsEmpty) { EXPECT_EQ(plan_memory({}).total, Bytes{0}); }

TEST(MemoryPlan, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  const auto below = [&random](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = below(40); i > 0; --i) {
      const int first = below(30);
      buffers.push_back({{below(1000)}, first, first + below(12)});
    }
    expect_no_overlap(buffers, plan_memory(buffers));
  }
}

TEST(MemoryPlan, OfWholeModelsIsSafeAndSmallerThanAllBuffers) {
  const auto ops = ops::make_reference_ops();
  for (const Models models; const std::string_view name : models.names()) {
    const Graph network = make_model(name, models.example(name));
    const Lanes lanes(1, *ops);
    PreparedGraph prepared(network, lanes, DType::float32, 4, {}, {});
    for (const PlacedSteps* steps : {&prepared.training(), &prepared.evaluation()}) {
      expect_no_overlap(steps->lifetimes(), steps->plan());
      EXPECT_LT(static_cast<double>(steps->plan().total.value),
                0.75 * static_cast<double>(sum_of_bytes(steps->lifetimes())))
          << name;
    }
  }
}

}  // namespace
}  // namespace lockstep::nn
