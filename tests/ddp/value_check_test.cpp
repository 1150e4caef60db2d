// SPDX-License-Identifier: Apache-2.0
// Tests that ranks whose values have drifted apart get an error.
#include "ddp/value_check.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "ddp/model.hpp"
#include "ddp/ranks.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

DataParallelOptions compared_every(std::int64_t steps) {
  return {.bucket = {256}, .compare_every = steps, .allow_unused = true};
}

/// Takes a step that decreases all values, by the same amount on each rank.
void step(DataParallel& model) {
  for (int parameter = parameters - 1; parameter >= 0; --parameter) {
    write(model.gradient(parameter), 0, parameter);
    model.ready(parameter);
  }
  (void)model.finish(1);
  for (int parameter = 0; parameter < parameters; ++parameter) {
    const Buffer value = model.value(parameter);
    for (std::int64_t i = 0; i < value.count.value; ++i) floats(value)[i] -= 1;
  }
}

/// Takes steps until the error; if one rank has an error, all must have it. @return the error
std::optional<Error> error_within(DataParallel& model, int steps) {
  for (int i = 0; i < steps; ++i) {
    try {
      step(model);
    } catch (const Error& error) {
      return error;
    }
  }
  return std::nullopt;
}

TEST(ValueCheck, NamesTheFirstTensorTheRanksAndTheStep) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, compared_every(3));
    model.synchronize();
    model.number_steps_from(1001);
    for (int i = 0; i < 4; ++i) step(model);  // all values are compared in the second and the third step
    const int odd = group.size() - 1;
    if (group.rank().value == odd) {
      floats(model.value(1))[2] += 1;
      floats(model.value(2))[0] += 1;
    }
    if (odd == 0) {
      EXPECT_FALSE(error_within(model, 3));
      return;
    }
    const auto error = error_within(model, 1);  // in the fifth step, which compares some elements of each tensor
    ASSERT_TRUE(error) << "rank " << group.rank().value << " heard nothing";
    EXPECT_EQ(error->code(), ErrorCode::mismatch);
    EXPECT_TRUE(error->is_on_every_rank());
    EXPECT_EQ(error->context().peers, std::vector<int>{odd});
    EXPECT_EQ(error->context().step, 1005);
    EXPECT_EQ(error->context().rank, group.rank().value);
    EXPECT_EQ(error->context().host, group.host());
    const std::string who = "'conv.bias' is the first tensor that differs, on rank " + std::to_string(odd) + " from " +
                            (odd == 1 ? "rank 0" : "the others");
    EXPECT_NE(error->message().find(who), std::string::npos) << error->message();
  });
}

TEST(ValueCheck, ComparesInTheSecondStepWhateverTheInterval) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, compared_every(1000));
    model.synchronize();
    step(model);
    if (group.rank().value == 0 && group.size() > 2) floats(model.value(0))[39] = -0.0F;
    if (group.rank().value == 1 && group.size() == 2) floats(model.value(0))[39] = -0.0F;
    const auto error = error_within(model, 1);
    ASSERT_EQ(error.has_value(), group.size() > 1);
    if (!error) return;
    EXPECT_EQ(error->context().peers, std::vector<int>{group.size() > 2 ? 0 : 1}) << "what most have is right";
    model.synchronize();
    EXPECT_EQ(model.finish(2).weight, 2 * group.size()) << "the program may go on";
  });
}

/// This happens if a hook does not know that libtorch's zero_grad() replaces gradients.
TEST(ValueCheck, FindsRanksThatReduceWhatIsNotTheirGradient) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    DataParallel model(group, tensors.parameters(), compared_every(100));
    const std::vector<float> replaced(40, static_cast<float>(2 + group.rank().value));
    model.ready(0);  // the old memory of the gradient
    (void)model.finish(1);
    for (std::size_t i = 0; i < replaced.size(); ++i) tensors.values[0][i] -= replaced[i];
    const std::string text = message_of([&] { (void)model.finish(1); });
    EXPECT_EQ(text.find("'tensor 0' is the first tensor that differs") != std::string::npos, group.size() > 1) << text;
  });
}

TEST(ValueCheck, LeavesOneElementToAComparisonOfAll) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    DataParallel model(group, layout(), DType::float32, compared_every(4));
    model.synchronize();
    for (int i = 0; i < 2; ++i) step(model);
    if (group.rank().value == 1) floats(model.value(2))[1] += 1;  // neither the first of 100 nor the fifteenth
    EXPECT_FALSE(error_within(model, 1));
    const auto error = error_within(model, 1);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->context().step, 4);
  });
}

/// A program whose std::vector of gradients is assigned anew applies its own gradients from then on.
TEST(ValueCheck, FindsAtOnceThatAVectorHasMoved) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    DataParallel model(group, tensors.parameters(), compared_every(100));
    std::vector<std::vector<float>> former;  // keeps the memory that DataParallel knows
    std::string text = "nothing was thrown";
    int steps = 0;
    for (; steps < 8 && text == "nothing was thrown"; ++steps) {
      if (steps == 4) former.push_back(std::exchange(tensors.gradients[2], std::vector<float>(100)));
      for (float& element : tensors.gradients[2]) element = static_cast<float>(1 + group.rank().value);
      model.ready(2);
      text = message_of([&] { (void)model.finish(1); });
      for (std::size_t i = 0; i < 100; ++i) tensors.values[2][i] -= tensors.gradients[2][i];
    }
    if (group.size() == 1) return;
    EXPECT_EQ(steps, 6) << "the fifth step made another update, and the sixth finds it";
    EXPECT_NE(text.find("'tensor 2' is the first tensor that differs"), std::string::npos) << text;
    EXPECT_NE(text.find("a std::vector"), std::string::npos) << text;
    EXPECT_NE(text.find("step()) before finish()"), std::string::npos) << text;
  });
}

TEST(ValueCheck, SleepsWhereItIsToldTo) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, compared_every(0));
    model.synchronize();
    floats(model.value(0))[0] = static_cast<float>(group.rank().value);
    EXPECT_FALSE(error_within(model, 5));
    EXPECT_NE(message_of([&] {
                DataParallel(group, layout(), DType::float32, compared_every(-1));
              }).find("values compared every -1 steps"),
              std::string::npos);
  });
}

TEST(ValueCheck, IsAsOftenOnAllRanks) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const std::int64_t every = group.rank().value == 0 ? 10 : 20;
    const auto text = message_of([&] { DataParallel(group, layout(), DType::float32, compared_every(every)); });
    EXPECT_NE(text.find("compare_every"), std::string::npos) << text;
  });
}

TEST(ValueCheck, BeginsAnewWithAnotherGroup) {
  on_every_rank([](ProcessGroup& group) {
    const int rank = group.rank().value;
    DataParallel model(group, layout(), DType::float32, compared_every(4));
    model.synchronize();
    for (int i = 0; i < 3; ++i) step(model);
    auto part = group.split(rank % 2, rank);
    model.rebind(*part);
    for (int i = 0; i < 3; ++i) step(model);
    EXPECT_FALSE(error_within(model, 2));
    part->close();
  });
}

TEST(ValueCheck, ComparesWhatAllRanksHaveGatheredWhereUpdatesAreShared) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32,
                       {.bucket = {256}, .shard_optimizer = true, .compare_every = 1, .allow_unused = true});
    model.synchronize();
    for (int i = 0; i < 3; ++i) {
      for (int parameter = 0; parameter < parameters; ++parameter) model.ready(parameter);
      (void)model.finish(1);
      for (const LayoutPart& part : model.owned()) {
        const Buffer own = slice(model.values(), part.offset, part.count);
        for (std::int64_t k = 0; k < own.count.value; ++k) floats(own)[k] += static_cast<float>(i + 1);
      }
      if (i < 2) model.gather(model.values());
    }
    for (int parameter = 0; parameter < parameters; ++parameter) model.ready(parameter);
    const std::string text = message_of([&] { (void)model.finish(1); });  // after an update without a gather
    EXPECT_EQ(text.find("drifted apart") != std::string::npos, group.size() > 1) << text;
  });
}

/// The hash must differ after a change of one word, of two, of the order, and of the length.
TEST(Hash, ChangesWithTheBytes) {
  std::vector<float> values(1001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 500;
  const auto hash = [&] { return hash_of(std::as_bytes(std::span(values))); };
  const std::uint64_t before = hash();
  std::vector<std::uint64_t> seen = {before};
  const auto expect_new = [&](const std::string& what) {
    EXPECT_EQ(std::count(seen.begin(), seen.end(), hash()), 0) << what;
    seen.push_back(hash());
  };
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{999}, std::size_t{1000}}) {
    values[i] = -values[i] + 0.5F;
    expect_new("element " + std::to_string(i));
    values[i] = -(values[i] - 0.5F);
  }
  EXPECT_EQ(hash(), before);
  for (float& value : values) value = -value;  // many upper bits only
  expect_new("signs");
  for (float& value : values) value = -value;
  values[1] = -values[1];
  values[17] = -values[17];  // two upper bits of one lane
  expect_new("two signs");
  values[1] = -values[1];
  values[17] = -values[17];
  std::swap(values[3], values[19]);  // in one lane
  expect_new("order");
  std::swap(values[3], values[19]);
  values.pop_back();
  expect_new("length");
}

}  // namespace
}  // namespace lockstep::ddp
