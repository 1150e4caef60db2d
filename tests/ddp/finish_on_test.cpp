// SPDX-License-Identifier: Apache-2.0
// Tests steps for which a queue waits. Here the operations run on the host, so the host waits.
#include <gtest/gtest.h>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

void run_step(DataParallel& model, int rank, int step) {
  for (int parameter = parameters - 1; parameter >= 0; --parameter) {
    write(model.gradient(parameter), rank, parameter, step);
    model.ready(parameter);
  }
}

void expect_sums(const DataParallel& model, int ranks, int step) {
  for (int parameter = 0; parameter < parameters; ++parameter) {
    for (std::int64_t i = 0; i < model.gradient(parameter).count.value; ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += contribution(rank, parameter, i, step);
      ASSERT_EQ(floats(model.gradient(parameter))[i], sum) << "parameter " << parameter << '[' << i << ']';
    }
  }
}

void take_turns(DataParallel& model, const ProcessGroup& group) {
  for (int step = 0; step < 4; ++step) {
    run_step(model, group.rank().value, step);
    if (step % 2 == 0) {
      model.finish_on(Queue::host());
    } else {
      EXPECT_EQ(model.finish(3).weight, 3.0 * group.size());
    }
    expect_sums(model, group.size(), step);
  }
}

TEST(FinishOn, GivesTheSumsAndTakesTurnsWithFinish) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    take_turns(model, group);
  });
}

TEST(FinishOn, GivesTheSumsInTheProgramsOwnTensors) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    DataParallel model(group, tensors.parameters(), small_buckets);
    take_turns(model, group);
  });
}

TEST(FinishOn, NamesAParameterThatIsNotReadyAndWhichMayStillBecomeSo) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    for (const int parameter : {2, 0}) {
      write(model.gradient(parameter), group.rank().value, parameter);
      model.ready(parameter);
    }
    const std::string message = message_of([&] { model.finish_on(Queue::host()); });
    EXPECT_NE(message.find("'conv.bias' is not ready"), std::string::npos) << message;
    write(model.gradient(1), group.rank().value, 1);
    model.ready(1);
    model.finish_on(Queue::host());
    expect_sums(model, group.size(), 0);
  });
}

TEST(FinishOn, DropsWhatHasAddedUpBesideTheGradients) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    double loss[1] = {7};
    {
      const auto quiet = model.no_sync();
      run_step(model, group.rank().value, 0);
      EXPECT_EQ(model.finish(5, loss).weight, 5);
      run_step(model, group.rank().value, 0);
      const std::string message = message_of([&] { model.finish_on(Queue::host()); });
      EXPECT_NE(message.find("no_sync"), std::string::npos) << message;
      EXPECT_EQ(model.finish(5, loss).weight, 10);
    }
    run_step(model, group.rank().value, 1);
    model.finish_on(Queue::host());
    expect_sums(model, group.size(), 1);
    model.ready(2);
    const DataParallel::Step step = model.finish(1, loss);
    EXPECT_EQ(step.weight, group.size());
    EXPECT_EQ(loss[0], 7.0 * group.size());
    EXPECT_EQ(step.unused, (std::vector<int>{0, 1}));
  });
}

TEST(FinishOn, RefusesWhatItDoesNotDo) {
  on_every_rank([](ProcessGroup& group) {
    DataParallelOptions checked = small_buckets;
    checked.check_finite = true;
    DataParallel model(group, layout(), DType::float32, checked);
    EXPECT_NE(message_of([&] { model.finish_on(Queue::host()); }).find("synchronize()"), std::string::npos);
    model.synchronize();
    run_step(model, group.rank().value, 0);
    EXPECT_NE(message_of([&] { model.finish_on(Queue::host()); }).find("check_finite"), std::string::npos);
    EXPECT_EQ(model.finish(1).weight, group.size());
  });
}

}  // namespace
}  // namespace lockstep::ddp
