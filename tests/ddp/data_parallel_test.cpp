// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/data_parallel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

/// Expects each element to be the sum of the contributions of the ranks for which `takes_part` is true.
void expect_sums(const DataParallel& model, int ranks, const std::function<bool(int rank, int parameter)>& takes_part) {
  for (int parameter = 0; parameter < parameters; ++parameter) {
    const Buffer gradient = model.gradient(parameter);
    for (std::int64_t i = 0; i < gradient.count.value; ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank)
        if (takes_part(rank, parameter)) sum += contribution(rank, parameter, i);
      ASSERT_EQ(floats(gradient)[i], sum) << model.layout().at(parameter).name << '[' << i << ']';
    }
  }
}

bool everybody(int /*rank*/, int /*parameter*/) { return true; }

TEST(DataParallel, SumsStepAfterStepWhateverTheOrderOfReadiness) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    EXPECT_GT(model.bucket_sizes().size(), 1U);
    model.synchronize();
    const std::vector<std::vector<int>> orders = {{2, 1, 0}, {0, 1, 2}, {1, 2, 0}};
    for (int step = 0; step < 3; ++step) {
      for (const int parameter : orders[static_cast<std::size_t>((group.rank().value + step) % 3)]) {
        write(model.gradient(parameter), group.rank().value, parameter);
        model.ready(parameter);
        model.progress();
      }
      const DataParallel::Step result = model.finish(2);
      EXPECT_EQ(result.weight, 2 * group.size());
      EXPECT_TRUE(result.unused.empty());
      expect_sums(model, group.size(), everybody);
    }
    EXPECT_GE(model.exposed_seconds(), 0.0);
  });
}

TEST(DataParallel, BeginsWithTheValuesOfRankZero) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    write(model.values(), group.rank().value, 0);
    model.synchronize();
    for (std::int64_t i = 0; i < model.values().count.value; ++i)
      ASSERT_EQ(floats(model.values())[i], contribution(0, 0, i));
  });
}

TEST(DataParallel, TakesNothingOfAParameterThatARankSkipped) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    // Rank r skips parameter r; all ranks skip parameter 1.
    const auto takes_part = [](int rank, int parameter) { return parameter != 1 && parameter != rank; };
    for (int parameter = 0; parameter < parameters; ++parameter) {
      poison(model.gradient(parameter));
      if (!takes_part(group.rank().value, parameter)) continue;
      write(model.gradient(parameter), group.rank().value, parameter);
      model.ready(parameter);
    }
    const DataParallel::Step result = model.finish(1);
    expect_sums(model, group.size(), takes_part);
    EXPECT_EQ(result.unused, (group.size() == 1 ? std::vector<int>{0, 1} : std::vector<int>{1}));
  });
}

TEST(DataParallel, NamesOnEveryRankTheParametersThatNoRankMadeReady) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, {.bucket = {256}});
    model.synchronize();
    const std::string none = "nothing was thrown";
    const auto step = [&](double weight, int last_ready) {
      for (int parameter = 0; parameter <= last_ready; ++parameter) {
        write(model.gradient(parameter), group.rank().value, parameter);
        model.ready(parameter);
      }
      return message_of([&] { (void)model.finish(weight); });
    };
    EXPECT_EQ(step(1, 2), none);
    const std::string message = step(1, 0);
    EXPECT_NE(message.find("no rank made the gradient of 'conv.bias', 'fc.weight' ready in step 2"), std::string::npos)
        << message;
    EXPECT_NE(message.find("rank " + std::to_string(group.rank().value) + " on " + group.host()), std::string::npos)
        << message;
    EXPECT_EQ(step(0, -1), none) << "a step without samples has no gradients";
    EXPECT_EQ(step(1, 2), none) << "the error has left a complete step behind";
    expect_sums(model, group.size(), everybody);
  });
}

TEST(DataParallel, NamesOnEveryRankTheRanksThatLeftOutAGradientWhichOthersHave) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    DataParallel model(group, layout(), DType::float32, {.bucket = {256}});
    model.synchronize();
    const int last = group.size() - 1;
    const std::string none = "nothing was thrown";
    const auto step = [&](double weight, bool forgets) {
      for (int parameter = 0; parameter < parameters; ++parameter) {
        write(model.gradient(parameter), group.rank().value, parameter);
        if (parameter != 1 || !forgets) model.ready(parameter);
      }
      return message_of([&] { (void)model.finish(weight); });
    };
    const bool is_last = group.rank().value == last;
    try {
      for (int parameter : {2, 0}) model.ready(parameter);
      if (!is_last) model.ready(1);
      (void)model.finish(0.5);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_TRUE(error.is_on_every_rank());
      EXPECT_EQ(error.context().peers, std::vector<int>{last});
      const std::string who =
          "rank " + std::to_string(last) + " on " + group.host() + " left out the gradient of 'conv.bias' in step 1";
      EXPECT_NE(error.message().find(who), std::string::npos) << error.message();
    }
    EXPECT_EQ(step(1, false), none) << "the error has left a complete step behind";
    EXPECT_EQ(step(is_last ? 0 : 1, is_last), none) << "a rank without a weight has no gradients";
    // The gradient of a rank without a weight does not replace those that are missing.
    EXPECT_NE(step(is_last ? 0 : 1, !is_last).find("rank 0 on"), std::string::npos);
    EXPECT_EQ(step(0, is_last), none) << "a step without samples has no gradients";
  });
}

TEST(DataParallel, AddsUpWeightsAndNumbersOfUnequalShares) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    const int rank = group.rank().value;  // rank 0 has neither samples nor gradients
    for (int step = 0; step < 2; ++step) {
      for (int parameter = 0; parameter < parameters && rank > 0; ++parameter) {
        write(model.gradient(parameter), rank, parameter);
        model.ready(parameter);
      }
      double loss[2] = {0.5 * rank, 3.0};
      const DataParallel::Step result = model.finish(rank, loss);
      EXPECT_EQ(result.weight, group.size() * (group.size() - 1) / 2.0);
      EXPECT_EQ(loss[0], result.weight / 2);
      EXPECT_EQ(loss[1], 3.0 * group.size());
      expect_sums(model, group.size(), [](int of, int /*parameter*/) { return of > 0; });
    }
  });
}

TEST(DataParallel, SumsTheProgramsOwnTensors) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    tensors.values[2][7] = static_cast<float>(5 + group.rank().value);
    DataParallel model(group, tensors.parameters(), small_buckets);
    EXPECT_EQ(tensors.values[2][7], 5.0F) << "synchronized at construction";
    for (int parameter = 0; parameter < parameters; ++parameter) {
      poison(model.gradient(parameter));
      if (parameter == 1 && group.rank().value == 0) continue;
      write(model.gradient(parameter), group.rank().value, parameter);
      model.ready(parameter);
    }
    (void)model.finish(1);
    EXPECT_EQ(model.gradient(1).data, tensors.gradients[1].data());
    expect_sums(model, group.size(), [](int rank, int parameter) { return parameter != 1 || rank != 0; });
    EXPECT_NE(message_of([&] { (void)model.values(); }).find("do not lie side by side"), std::string::npos);
  });
}

TEST(DataParallel, FindsTheRankWhoseValuesAreOdd) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, {.initial = InitialValues::compare});
    write(model.values(), 0, 0);
    model.synchronize();
    const int odd = group.size() - 1;
    if (odd == 0) return;
    if (group.rank().value == odd) floats(model.values())[17] += 1;
    try {
      model.synchronize();
      ADD_FAILURE() << "rank " << group.rank().value << " saw no difference";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_EQ(error.context().peers, std::vector<int>{odd});
      EXPECT_TRUE(error.is_on_every_rank());
    }
  });
}

TEST(DataParallel, GoesOnWithAnotherGroup) {
  on_every_rank([](ProcessGroup& group) {
    const int rank = group.rank().value;
    DataParallel model(group, layout(), DType::float32, small_buckets);
    write(model.values(), rank, 0);
    model.synchronize();
    auto part = group.split(rank % 2, rank);  // this rank's number in it is half of its number here
    model.rebind(*part);
    EXPECT_EQ(floats(model.values())[8], contribution(0, 0, 8)) << "values are kept";
    for (int parameter = 0; parameter < parameters; ++parameter) {
      write(model.gradient(parameter), part->rank().value, parameter);
      model.ready(parameter);
    }
    EXPECT_EQ(model.finish(1).weight, part->size());
    expect_sums(model, part->size(), everybody);
    model.ready(0);
    EXPECT_NE(message_of([&] { model.rebind(group); }).find("between steps"), std::string::npos);
    (void)model.finish(0);
    part->close();
  });
}

TEST(DataParallel, GoesOnWithAnotherGroupAfterAFailedStep) {
  on_every_rank([](ProcessGroup& whole) {
    if (whole.size() == 1) return;
    const int rank = whole.rank().value;
    auto group = std::make_unique<ProcessGroup>(*whole.split(0, rank));
    DataParallel model(*group, layout(), DType::float32, small_buckets);
    write(model.values(), 7, 0);
    model.synchronize();
    model.ready(parameters - 1);
    whole.communicator().barrier().wait();  // synchronize() and ready() would fail as well on a rank that comes later
    if (rank == 0) group->abort("as if a rank had died");
    EXPECT_FALSE(message_of([&] { (void)model.finish(1); }).empty());
    EXPECT_FALSE(message_of([&] { (void)model.finish(1); }).empty()) << "the group does not recover";
    auto others = std::make_unique<ProcessGroup>(*whole.split(0, -rank));
    model.rebind(*others);
    group = std::move(others);
    EXPECT_EQ(floats(model.values())[8], contribution(7, 0, 8)) << "values are kept";
    for (int parameter = 0; parameter < parameters; ++parameter) {
      write(model.gradient(parameter), group->rank().value, parameter);
      model.ready(parameter);
    }
    EXPECT_EQ(model.finish(1).weight, group->size());
    expect_sums(model, group->size(), everybody);
    group->close();
  });
}

TEST(DataParallel, NamesWhatIsOutOfOrder) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    EXPECT_NE(message_of([&] { model.ready(0); }).find("call synchronize() once"), std::string::npos);
    EXPECT_NE(message_of([&] { (void)model.finish(1); }).find("call synchronize() once"), std::string::npos);
    model.synchronize();
    model.ready(1);
    EXPECT_NE(message_of([&] { model.ready(1); }).find("'conv.bias' became ready twice"), std::string::npos);
    EXPECT_NE(message_of([&] { model.ready(3); }).find("no parameter 3: there are 3, numbered from 0"),
              std::string::npos);
    EXPECT_NE(message_of([&] { (void)model.finish(-1); }).find("the weight -1"), std::string::npos);
    EXPECT_NE(message_of([&] { (void)model.finish(std::nan("")); }).find("not negative"), std::string::npos);
    EXPECT_EQ(model.finish(1).unused, (std::vector<int>{0, 2})) << "refused calls have left no trace";
  });
}

TEST(DataParallel, NamesTheParameterWhoseBuffersDoNotFit) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    auto parameters = tensors.parameters();
    parameters[1].gradient.count = {2};
    EXPECT_NE(message_of([&] { DataParallel(group, parameters); }).find("'tensor 1': 3 elements of value, 2 of"),
              std::string::npos);
    parameters[1] = tensors.parameters()[1];
    parameters[2].value.dtype = DType::int32;
    EXPECT_NE(message_of([&] { DataParallel(group, parameters); }).find("'tensor 2': int32 beside float32"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep::ddp
