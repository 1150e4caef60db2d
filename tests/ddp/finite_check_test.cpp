// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr DataParallelOptions checked{.bucket = {256}, .check_finite = true, .allow_unused = true};

/// Writes all gradients and makes them ready.
void backward(DataParallel& model, int rank) {
  for (int parameter = parameters - 1; parameter >= 0; --parameter) {
    write(model.gradient(parameter), rank, parameter);
    model.ready(parameter);
  }
}

TEST(FiniteCheck, FindsNothingInFiniteGradientsStepAfterStep) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, checked);
    model.synchronize();
    for (int step = 0; step < 3; ++step) {
      backward(model, group.rank().value);
      EXPECT_TRUE(model.finish(1).not_finite.empty());
    }
  });
}

TEST(FiniteCheck, NamesEachRankItsHostAndItsParametersAndForgetsThem) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, checked);
    model.synchronize();
    const int rank = group.rank().value;
    // The last rank has an infinity in its first parameter; every other rank except the first has one in all
    // parameters.
    const bool is_last = rank == group.size() - 1;
    for (int parameter = parameters - 1; parameter >= 0; --parameter) {
      write(model.gradient(parameter), rank, parameter);
      if (is_last ? parameter == 0 : rank > 0) floats(model.gradient(parameter))[2] = is_last ? infinite : -infinite;
      model.ready(parameter);
    }
    const DataParallel::Step step = model.finish(1);
    ASSERT_EQ(step.not_finite.size(), static_cast<std::size_t>(group.size() == 1 ? 1 : group.size() - 1));
    int expected = group.size() == 1 ? 0 : 1;
    for (const DataParallel::NotFinite& flawed : step.not_finite) {
      EXPECT_EQ(flawed.rank, expected);
      EXPECT_EQ(flawed.host, group.host());
      EXPECT_EQ(flawed.parameters, expected == group.size() - 1 ? std::vector<int>{0} : (std::vector<int>{0, 1, 2}));
      ++expected;
    }
    backward(model, rank);
    EXPECT_TRUE(model.finish(1).not_finite.empty());
  });
}

TEST(FiniteCheck, FindsASumThatIsNotThoughEachRanksOwnIs) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, checked);
    model.synchronize();
    backward(model, group.rank().value);
    (void)model.finish(1);
    for (int parameter = parameters - 1; parameter >= 0; --parameter) {
      write(model.gradient(parameter), group.rank().value, parameter);
      if (parameter == 2) floats(model.gradient(parameter))[99] = std::numeric_limits<float>::max();
      model.ready(parameter);
    }
    const DataParallel::Step step = model.finish(1);
    if (group.size() == 1) {
      EXPECT_TRUE(step.not_finite.empty());
      return;
    }
    ASSERT_EQ(step.not_finite.size(), 1U);
    EXPECT_FALSE(step.not_finite[0].rank.has_value());
    EXPECT_EQ(step.not_finite[0].parameters, std::vector<int>{2});
  });
}

TEST(FiniteCheck, LooksAtWhatHasAddedUpAndAtTheProgramsOwnTensors) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors own;
    DataParallel model(group, own.parameters(), checked);
    const bool at_fault = group.rank().value == group.size() / 2;
    {
      const auto no_sync = model.no_sync();
      own.gradients[1][0] = at_fault ? infinite : 1;
      for (int parameter = parameters - 1; parameter >= 0; --parameter) model.ready(parameter);
      (void)model.finish(1);
    }
    model.ready(0);
    const DataParallel::Step step = model.finish(1);
    ASSERT_EQ(step.not_finite.size(), 1U);
    EXPECT_EQ(step.not_finite[0].rank, group.size() / 2);
    EXPECT_EQ(step.not_finite[0].parameters, std::vector<int>{1});
  });
}

TEST(FiniteCheck, LooksOnlyIfAsked) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    for (int parameter = parameters - 1; parameter >= 0; --parameter) {
      write(model.gradient(parameter), group.rank().value, parameter);
      floats(model.gradient(parameter))[0] = infinite;
      model.ready(parameter);
    }
    EXPECT_TRUE(model.finish(1).not_finite.empty());
  });
}

}  // namespace
}  // namespace lockstep::ddp
