// SPDX-License-Identifier: Apache-2.0
// Tests that gradients of several backward passes add up on each rank before they are sent.
#include <gtest/gtest.h>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

constexpr int backwards = 3;

/// Parameter 1 takes part in the first backward pass only, and not on rank 0; parameter 2 does not take part in the
/// first.
bool takes_part(int rank, int parameter, int backward) {
  if (parameter == 1) return backward == 0 && rank > 0;
  return parameter != 2 || backward > 0;
}

void run_backward(DataParallel& model, int rank, int backward) {
  for (int parameter = parameters - 1; parameter >= 0; --parameter) {
    if (!takes_part(rank, parameter, backward)) continue;
    add(model.gradient(parameter), rank, parameter, backward);
    model.ready(parameter);
  }
}

void expect_one_big_batch(const DataParallel& model, int ranks) {
  for (int parameter = 0; parameter < parameters; ++parameter) {
    for (std::int64_t i = 0; i < model.gradient(parameter).count.value; ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank)
        for (int backward = 0; backward < backwards; ++backward)
          if (takes_part(rank, parameter, backward)) sum += contribution(rank, parameter, i, backward);
      ASSERT_EQ(floats(model.gradient(parameter))[i], sum) << "parameter " << parameter << '[' << i << ']';
    }
  }
}

void zero(const DataParallel& model) {
  for (int parameter = 0; parameter < parameters; ++parameter)
    for (std::int64_t i = 0; i < model.gradient(parameter).count.value; ++i) floats(model.gradient(parameter))[i] = 0;
}

void accumulate(DataParallel& model, const ProcessGroup& group) {
  for (int step = 0; step < 2; ++step) {
    zero(model);
    double loss[1] = {1};
    {
      const auto quiet = model.no_sync();
      for (int backward = 0; backward < backwards - 1; ++backward) {
        run_backward(model, group.rank().value, backward);
        EXPECT_EQ(model.finish(5, loss).weight, 5.0 * (backward + 1)) << "of this rank alone";
        EXPECT_EQ(loss[0], 1.0);
      }
    }
    run_backward(model, group.rank().value, backwards - 1);
    const DataParallel::Step result = model.finish(5, loss);
    EXPECT_EQ(result.weight, 5.0 * backwards * group.size());
    EXPECT_EQ(loss[0], backwards * group.size());
    EXPECT_EQ(result.unused, (group.size() == 1 ? std::vector<int>{1} : std::vector<int>{}));
    expect_one_big_batch(model, group.size());
  }
}

TEST(Accumulation, EqualsOneBigBatch) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    accumulate(model, group);
  });
}

TEST(Accumulation, EqualsOneBigBatchInTheProgramsOwnTensors) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    DataParallel model(group, tensors.parameters(), small_buckets);
    accumulate(model, group);
  });
}

class Counter : public Observer {
 public:
  void span(const Span& /*span*/) override { ++spans; }
  int spans = 0;
};

TEST(Accumulation, SendsNothingMeanwhile) {
  Counter counter;
  ProcessGroup group = std::move(ProcessGroup::of_threads(1, {.observer = &counter}).front());
  DataParallel model(group, layout(), DType::float32, small_buckets);
  model.synchronize();
  const int before = counter.spans;
  {
    const auto quiet = model.no_sync();
    run_backward(model, 0, 1);
    (void)model.finish(1);
  }
  EXPECT_EQ(counter.spans, before);
  (void)model.finish(1);
  EXPECT_EQ(counter.spans, before + static_cast<int>(model.bucket_sizes().size()));
  group.close();
}

}  // namespace
}  // namespace lockstep::ddp
