// SPDX-License-Identifier: Apache-2.0
// Evaluation of a data set whose samples have inputs of different extents.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "data/dataset_of_sizes.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/thread_ranks.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t evaluated = 70;

/// A network for images of any extent.
nn::Graph network_of(const std::vector<TensorSpec>& tensors) {
  const nn::DataSpec data{tensors, 10};
  nn::Graph graph("network");
  graph.input(data.at("images"));
  graph.add("conv", ops::Convolution{.out_channels = 8, .padding = 1});
  graph.add("bn", ops::BatchNorm{.activation = ops::Activation::relu});
  graph.add("pool", ops::GlobalAveragePool{});
  graph.add("fc", ops::Linear{.out_features = 10});
  nn::classify(graph, data);
  return graph;
}

/// Keeps the logits of each sample, from all ranks.
class KeptLogits final : public Metric {
 public:
  using Kept = std::map<std::int64_t, std::vector<float>>;
  KeptLogits(Kept& kept, std::mutex& mutex) : kept_(kept), mutex_(mutex) {}

  void reset() override {}
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    const std::lock_guard lock(mutex_);
    const auto* logits = static_cast<const float*>(prediction.outputs[0].data);
    for (const std::int64_t id : batch.ids) {
      EXPECT_TRUE(kept_.emplace(id, std::vector<float>(logits, logits + 10)).second) << "sample " << id << " twice";
      logits += 10;
    }
  }
  void reduce(Communicator& /*communicator*/) override {}
  [[nodiscard]] std::vector<observe::MetricValue> values() const override { return {}; }

 private:
  Kept& kept_;
  std::mutex& mutex_;
};

struct GroupEvaluation {
  std::vector<observe::MetricValue> values;
  KeptLogits::Kept logits;
  friend bool operator==(const GroupEvaluation&, const GroupEvaluation&) = default;
};

/// Evaluates the initial weights on threads as ranks.
GroupEvaluation evaluate_groups(int ranks, TrainerOptions options, const std::shared_ptr<const data::Dataset>& test) {
  options.batch = {12};
  options.graphs = network_of;
  const data::DatasetPair data{
      std::make_shared<data::DatasetOfSizes>(50, std::vector{data::DatasetOfSizes::Size{8, 8}}), test};
  GroupEvaluation evaluation;
  std::mutex mutex;
  testing_support::on_thread_ranks(ranks, [&](ProcessGroup& group, int rank) {
    const auto ops = ops::make_onednn_ops(1);
    Trainer trainer(group, *ops, network_of(data.train->tensors()), data, options);
    trainer.add_metric(std::make_unique<KeptLogits>(evaluation.logits, mutex));
    const auto values = trainer.evaluate();
    if (rank == 0) evaluation.values = values;
  });
  return evaluation;
}

TEST(EvaluationInGroups, HasTheSameBitsOnAnyRanksAndWorkers) {
  const auto test = std::make_shared<data::DatasetOfGroups>(evaluated);
  for (const int shards : {0, 4}) {
    const GroupEvaluation alone = evaluate_groups(1, {.step = {.shards = shards}, .workers = 0}, test);
    EXPECT_EQ(std::ssize(alone.logits), evaluated);
    for (const int ranks : {2, 3})
      EXPECT_EQ(evaluate_groups(ranks, {.step = {.shards = shards}, .workers = 2}, test), alone);
  }
}

/// Each sample is predicted as in an evaluation whose samples all have the extents of its group.
TEST(EvaluationInGroups, PredictsSamplesWithTheExtentsOfTheirGroup) {
  const GroupEvaluation in_groups = evaluate_groups(2, {}, std::make_shared<data::DatasetOfGroups>(evaluated));
  const data::DatasetOfSizes::Size sizes[] = {{8, 8}, {4, 4}, {12, 8}};
  for (std::int64_t group = 0; group < 3; ++group) {
    class OneGroup final : public data::Dataset {
     public:
      explicit OneGroup(data::DatasetOfSizes::Size size) : images_(evaluated, {{8, 8}, size}) {}
      [[nodiscard]] std::string name() const override { return "one"; }
      [[nodiscard]] std::vector<TensorSpec> tensors() const override { return images_.tensors(); }
      [[nodiscard]] std::vector<data::EvaluationGroup> evaluation_groups() const override {
        data::EvaluationGroup all{.tensors = images_.extents()[1], .samples = {}};
        for (std::int64_t i = 0; i < evaluated; ++i) all.samples.push_back(i);
        return {all};
      }
      [[nodiscard]] std::int64_t size() const override { return evaluated; }
      [[nodiscard]] std::int64_t classes() const override { return 10; }
      void read(const data::SampleKey& key, std::span<const Buffer> tensors) const override {
        images_.read(key, tensors);
      }

     private:
      data::DatasetOfSizes images_;
    };
    const GroupEvaluation alone = evaluate_groups(1, {}, std::make_shared<OneGroup>(sizes[group]));
    for (std::int64_t id = group; id < evaluated; id += 3)
      for (std::size_t i = 0; i < 10; ++i) ASSERT_NEAR(in_groups.logits.at(id)[i], alone.logits.at(id)[i], 1e-5) << id;
  }
  EXPECT_TRUE(std::isfinite(in_groups.values.at(0).value.value()));
}

}  // namespace
}  // namespace lockstep::trainer
