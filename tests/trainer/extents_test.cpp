// SPDX-License-Identifier: Apache-2.0
// Training on a program's own data set, whose steps have several sizes.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/dataset_of_sizes.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "support/errors.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/thread_ranks.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

using Size = std::array<std::int64_t, 2>;

nn::Graph resnet20_for(const std::vector<TensorSpec>& tensors) { return nn::make_model("resnet20", {tensors, 10}); }

/// 50 samples, so that the last step of an epoch has 2 for four shards.
data::DatasetPair data_of_sizes() {
  return {std::make_shared<data::DatasetOfSizes>(50), std::make_shared<data::DatasetOfSizes>(10)};
}

class SizeRecorder final : public Listener {
 public:
  void step(const observe::StepEvent& event) override { img.push_back(event.img); }
  std::vector<std::optional<Size>> img;
};

struct SizedOutcome {
  testing_support::WholeState tensors;
  std::vector<observe::MetricValue> evaluation;
  std::vector<std::optional<Size>> img;
  friend bool operator==(const SizedOutcome&, const SizedOutcome&) = default;
};

/// Trains on threads as ranks.
SizedOutcome train_in_sizes(int ranks, TrainerOptions options, const data::DatasetPair& data = data_of_sizes()) {
  options.epochs = 2;
  options.batch = {12};
  options.optimizer = {.momentum = 0.9};
  options.log_every = 1;
  SizedOutcome outcome;
  testing_support::on_thread_ranks(ranks, [&](ProcessGroup& group, int rank) {
    const auto ops = ops::make_onednn_ops(1);
    SizeRecorder recorder;
    Trainer trainer(group, *ops, resnet20_for(data.train->tensors()), data, options, &recorder);
    const RunState& end = trainer.run();
    testing_support::WholeState tensors = testing_support::whole_state(trainer.replica().store());
    if (rank == 0) outcome = {std::move(tensors), end.evaluation, recorder.img};
  });
  return outcome;
}

TEST(StepsOfSeveralSizes, MakeTheSameBitsOnAnyRanksWorkersAndLanes) {
  const TrainerOptions options{.step = {.shards = 4}, .workers = 0, .graphs = resnet20_for};
  const SizedOutcome alone = train_in_sizes(1, options);
  ASSERT_EQ(alone.img.size(), 10U);
  const Size of_extents[] = {{8, 8}, {4, 4}, {12, 12}};
  for (std::size_t i = 0; i < alone.img.size(); ++i) EXPECT_EQ(alone.img[i], of_extents[(i % 5 + i / 5 + 1) % 3]) << i;
  TrainerOptions workers = options;
  workers.workers = 3;
  EXPECT_EQ(train_in_sizes(2, workers), alone);
  TrainerOptions lanes = options;
  lanes.step.lanes = 2;
  EXPECT_EQ(train_in_sizes(2, lanes), alone);
  EXPECT_EQ(train_in_sizes(4, options), alone);
  TrainerOptions in_parts = options;
  in_parts.zero = true;
  EXPECT_EQ(train_in_sizes(3, in_parts), alone);
}

TEST(StepsOfSeveralSizes, AreWholeStepsWhoseMicroBatchesHaveOneSize) {
  const TrainerOptions options{.step = {.shards = 2, .accumulate = 3}, .graphs = resnet20_for};
  EXPECT_EQ(train_in_sizes(2, options), train_in_sizes(1, options));
  EXPECT_EQ(train_in_sizes(2, {.step = {.accumulate = 2}, .graphs = resnet20_for}).img, train_in_sizes(1, options).img);
}

TEST(StepsOfSeveralSizes, AreReportedByNobodyWhereThereIsOne) {
  const data::DatasetPair one{std::make_shared<data::DatasetOfSizes>(50, std::vector<Size>{{8, 8}}),
                              std::make_shared<data::DatasetOfSizes>(10, std::vector<Size>{{8, 8}})};
  for (const auto& img : train_in_sizes(1, {}, one).img) EXPECT_FALSE(img.has_value());
}

TEST(StepsOfSeveralSizes, NeedAGraphForEach) {
  expect_error_on_every_rank([] { (void)train_in_sizes(2, {}); }, ErrorCode::invalid_argument,
                             {"3 different extents", "TrainerOptions::graphs"});
  const auto other_for = [](const std::vector<TensorSpec>& tensors) { return nn::make_model("lenet", {tensors, 10}); };
  expect_error_on_every_rank([&] { (void)train_in_sizes(2, {.graphs = other_for}); }, ErrorCode::invalid_argument,
                             {"model 'resnet20' is another one for images of 4×4 than for images of 8×8"});
}

}  // namespace
}  // namespace lockstep::trainer
