// SPDX-License-Identifier: Apache-2.0
// Tests where gradients are: in the DataParallel's own memory, or wherever the program has them at the moment.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

Buffer view(std::vector<float>& of) { return std::span(of); }

void expect_sum(const float* found, int ranks, int parameter, std::int64_t count, int backward = 0) {
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += contribution(rank, parameter, i, backward);
    ASSERT_EQ(found[i], sum) << "parameter " << parameter << '[' << i << ']';
  }
}

TEST(GradientMemory, IsProvidedWhereAParameterLeavesItEmpty) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    auto parameters = tensors.parameters();
    parameters[0].gradient = {};
    parameters[2].gradient = {};
    DataParallel model(group, parameters, small_buckets);
    const float* own = floats(model.gradient(0));
    EXPECT_EQ(model.gradient(1).data, tensors.gradients[1].data());
    for (int step = 0; step < 2; ++step) {
      for (int parameter = 2; parameter >= 0; --parameter) {
        write(model.gradient(parameter), group.rank().value, parameter, step);
        model.ready(parameter);
      }
      (void)model.finish(1);
      EXPECT_EQ(floats(model.gradient(0)), own) << "it stays where it is";
      for (int parameter = 0; parameter < 3; ++parameter) {
        const Buffer gradient = model.gradient(parameter);
        expect_sum(floats(gradient), group.size(), parameter, gradient.count.value, step);
      }
      EXPECT_EQ(tensors.gradients[2], std::vector<float>(100)) << "nothing is written to other memory";
    }
  });
}

/// The old memory still exists here, so the test detects reads and writes of it.
TEST(GradientMemory, IsThatWhichReadyIsGiven) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    auto parameters = tensors.parameters();
    parameters[1].gradient = {};
    DataParallel model(group, parameters, small_buckets);
    const float* own = floats(model.gradient(1));
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<float>> left = tensors.gradients;  // the program continues with other memory
      std::swap(left, tensors.gradients);
      for (auto& stale : left) poison(view(stale));
      for (int parameter = 2; parameter >= 0; --parameter) {
        std::vector<float>& gradient = tensors.gradients[static_cast<std::size_t>(parameter)];
        write(view(gradient), group.rank().value, parameter, step);
        model.ready(parameter, view(gradient));
        EXPECT_EQ(model.gradient(parameter).data, gradient.data());
      }
      (void)model.finish(1);
      for (int parameter = 0; parameter < 3; ++parameter) {
        auto& gradient = tensors.gradients[static_cast<std::size_t>(parameter)];
        expect_sum(gradient.data(), group.size(), parameter, static_cast<std::int64_t>(gradient.size()), step);
        for (const float value : left[static_cast<std::size_t>(parameter)]) ASSERT_EQ(value, -1e30F);
      }
    }
    // The gradient returns to the DataParallel's own memory.
    float* back = const_cast<float*>(own);
    write({back, {3}}, group.rank().value, 1);
    model.ready(1, Buffer{back, {3}});
    (void)model.finish(1);
    EXPECT_EQ(model.gradient(1).data, back);
    expect_sum(back, group.size(), 1, 3);
  });
}

TEST(GradientMemory, GetsTheSumsOfTheOtherRanksWhereItWasLast) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    DataParallel model(group, tensors.parameters(), small_buckets);
    std::vector<float> moved(40);
    model.ready(0, view(moved));
    (void)model.finish(1);
    poison(view(moved));
    if (group.rank().value > 0) {  // rank 0 has no gradient in this step
      write(view(moved), group.rank().value, 0);
      model.ready(0, view(moved));
    }
    (void)model.finish(1);
    for (std::int64_t i = 0; i < 40; ++i) {
      float sum = 0;
      for (int rank = 1; rank < group.size(); ++rank) sum += contribution(rank, 0, i);
      ASSERT_EQ(moved[static_cast<std::size_t>(i)], sum);
    }
  });
}

TEST(GradientMemory, MayMoveBetweenBackwardsThatAreSentTogether) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    DataParallel model(group, tensors.parameters(), small_buckets);
    std::vector<float> moved(40);
    for (int step = 0; step < 4; ++step) {
      const auto guard = model.no_sync(step != 3);
      std::vector<float> grown(40);
      std::swap(moved, grown);
      std::copy(grown.begin(), grown.end(), moved.begin());
      if (step < 3) {  // the last backward pass does not reach it
        add(view(moved), group.rank().value, 0, step);
        model.ready(0, view(moved));
      }
      EXPECT_EQ(model.finish(1).weight, step < 3 ? step + 1 : 4 * group.size());
      if (step == 3) std::swap(moved, grown);  // the memory that was given last
    }
    for (std::int64_t i = 0; i < 40; ++i) {
      float sum = 0;
      for (int rank = 0; rank < group.size(); ++rank)
        for (int step = 0; step < 3; ++step) sum += contribution(rank, 0, i, step);
      ASSERT_EQ(moved[static_cast<std::size_t>(i)], sum);
    }
  });
}

TEST(GradientMemory, IsRefusedWithTheNameOfTheTensorTheRankAndTheHost) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    DataParallel model(group, tensors.parameters(), small_buckets);
    std::vector<float> short_one(39);
    std::vector<double> wide(40);
    const auto expect_refused = [&](const Buffer& gradient, const std::string& why) {
      const std::string text = message_of([&] { model.ready(0, gradient); });
      EXPECT_NE(text.find("'tensor 0': its gradient is given as " + why), std::string::npos) << text;
      const std::string who = "rank " + std::to_string(group.rank().value) + " on " + group.host();
      EXPECT_NE(text.find(who), std::string::npos) << text;
    };
    expect_refused(view(short_one), "39 elements of float32, where it has 40");
    expect_refused(std::span(wide), "40 elements of float64, where it has 40 elements of float32");
    expect_refused(Buffer{nullptr, {40}}, "a null pointer");
    EXPECT_EQ(model.gradient(0).data, tensors.gradients[0].data()) << "refused calls have left no trace";
    EXPECT_EQ(model.finish(1).unused, (std::vector<int>{0, 1, 2}));
  });
}

TEST(GradientMemory, StaysWhereUpdatesAreShared) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32,
                       {.bucket = {256}, .shard_optimizer = true, .allow_unused = true});
    model.synchronize();
    std::vector<float> other(40);
    EXPECT_NE(message_of([&] { model.ready(0, view(other)); }).find("'conv.weight' is given in other memory"),
              std::string::npos);
    model.ready(0, model.gradient(0));
    (void)model.finish(1);
  });
}

}  // namespace
}  // namespace lockstep::ddp
