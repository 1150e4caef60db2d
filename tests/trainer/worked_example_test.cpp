// SPDX-License-Identifier: Apache-2.0
// Tests the worked example of docs/worked-example.md: one small step, split in every possible way and computed by hand.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/run/step.hpp"

namespace lockstep::trainer {
namespace {

using namespace nn;

constexpr int worked_shards = 4;
constexpr int ranks = 3;
constexpr int micro_batches = 2;
constexpr double rate = 1;

/// Makes the graph y = w·x with the binary cross-entropy of y and its target, for each sample that counts.
Graph example() {
  Graph graph("example");
  const int x = graph.input({.name = "x", .extent = {1, 1, 1}});
  const int target = graph.input({.name = "target", .extent = {1, 1, 1}});
  const int counts = graph.input({.name = "counts", .extent = {1, 1, 1}});
  const int y = graph.add("linear", Convolution{.out_channels = 1, .kernel = 1, .bias = false}, {x});
  graph.loss("loss", ops::BinaryCrossEntropy{}, {y, target, counts}, 1, Normalizer::weight);
  return graph;
}

/// The data of a step, by sample.
struct Samples {
  std::vector<double> x;
  std::vector<double> target;
  std::vector<double> counts;
};

/// The record and the results of one rank.
struct WorkedOutcome {
  std::vector<std::string> listing;
  std::vector<double> sums;  // sums of its nodes of the tree
  double normalizer = 0;
  double weight = 0;  // the weight after the update
};

/// Records each item and the rank's contributions, and then does what the ranks do together.
class Member final : public GradientReducer {
 public:
  Member(ProcessGroup& group, DataParallel& gradients) : group_(group), gradients_(gradients) {}
  [[nodiscard]] int size() const override { return ranks; }
  void reduce(int parameter, Queue queue) override {
    const auto nodes = tree_nodes(worked_shards, share_of(worked_shards, group_.rank().value, ranks));
    const auto* const places = static_cast<const double*>(gradients_.gradient_places().data);
    for (std::size_t node = 0; node < nodes.size(); ++node)
      sums.push_back(places[static_cast<std::int64_t>(node) * gradients_.layout().count().value]);
    gradients_.ready(parameter, queue);
  }
  void progress() override {}
  void sum(const Buffer& numbers, Queue queue) override {
    group_.control().all_reduce(numbers, numbers, ReduceOp::sum, queue).wait();
  }
  void gather(const Buffer& /*own*/, const Buffer& /*all*/, Queue /*queue*/) override {}
  void finish(const Buffer& numbers, Queue /*queue*/) override {
    gradients_.finish(1, {static_cast<double*>(numbers.data), static_cast<std::size_t>(numbers.count.value)});
  }
  void gather_parameters(Queue /*queue*/) override {}

  std::vector<double> sums;

 private:
  ProcessGroup& group_;
  DataParallel& gradients_;
};

std::string text_of(const Item& item) {
  struct Text {
    std::string operator()(const RunKernel& run) const { return *run.label; }
    std::string operator()(const Zero& /*item*/) const { return "zero"; }
    std::string operator()(const Join& /*item*/) const { return "join"; }
    std::string operator()(const ReduceGradient& /*item*/) const { return "reduce linear.weight"; }
    std::string operator()(const nn::Poll& /*item*/) const { return ""; }
    std::string operator()(const nn::CopyOutput& /*item*/) const { return "copy"; }
    std::string operator()(const Upload& /*item*/) const { return ""; }
    std::string operator()(const Download& /*item*/) const { return ""; }
    std::string operator()(const Compute& compute) const {
      constexpr std::array names{"begin", "sum weights", "set factors", "collect", "gate"};
      return names[static_cast<std::size_t>(compute.stage)];
    }
    std::string operator()(const CountNotFinite& /*item*/) const { return "count not finite"; }
    std::string operator()(const AddSquares& /*item*/) const { return "add squares"; }
    std::string operator()(const GatherOverRanks& /*item*/) const { return "gather"; }
    std::string operator()(const FinishReduction& /*item*/) const { return "finish"; }
    std::string operator()(const MeasureUpdate& /*item*/) const { return "measure update"; }
    std::string operator()(const SumOverRanks& /*item*/) const { return "sum"; }
    std::string operator()(const Update& /*item*/) const { return "update"; }
    std::string operator()(const Average& /*item*/) const { return "average"; }
    std::string operator()(const PackParameters& /*item*/) const { return "pack parameters"; }
    std::string operator()(const GatherParameters& /*item*/) const { return "gather parameters"; }
  };
  return std::visit(Text{}, item);
}

class Listing final : public ItemQueue {
 public:
  void submit(const Item& item) override {
    if (std::string text = text_of(item); !text.empty()) lines.push_back(std::move(text));
  }
  std::vector<std::string> lines;
};

WorkedOutcome take_step(ProcessGroup& group, const Samples& samples) {
  const auto ops = ops::make_reference_ops();
  const Share own = share_of(worked_shards, group.rank().value, ranks);
  Model model(example(), *ops,
              {.dtype = DType::float64,
               .optimizer = OptimizerOptions{.momentum = 0},
               .step = {.shards = worked_shards, .accumulate = micro_batches},
               .own_shards = own});
  DataParallel gradients(group, model.parameters(), DType::float64,
                         {.shards = worked_shards, .places = model.gradient_places()});
  std::vector<double> velocity(static_cast<std::size_t>(model.parameters().count().value));
  model.bind({.parameters = gradients.values(),
              .gradients = gradients.gradient_places(),
              .state = {nullptr, {0}, DType::float64},
              .optimizer_state = {Buffer(velocity)}});
  auto* const weight = static_cast<double*>(gradients.values().data);
  *weight = 0;
  gradients.synchronize();

  const auto total = static_cast<std::int64_t>(samples.x.size());
  const std::int64_t first = share_of(total, own.first, worked_shards).first;
  const std::array<const void*, 3> inputs{samples.x.data() + first, samples.target.data() + first,
                                          samples.counts.data() + first};
  const Feed feed{.samples = share_of(total, own.end() - 1, worked_shards).end() - first, .inputs = inputs};
  Listing listing;
  model.submit_items(feed.samples, listing);
  Member exchange(group, gradients);
  model.train(feed, {.learning_rate = rate, .samples = static_cast<double>(total)}, exchange);
  return {listing.lines, exchange.sums, model.numbers().block().weights[0], *weight};
}

/// Takes a step on all ranks.
std::vector<WorkedOutcome> take_step(const Samples& samples) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(ranks, {.wait = {.spins_before_yield = 0}});
  std::vector<WorkedOutcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto& group = groups[static_cast<std::size_t>(rank)];
      outcomes[static_cast<std::size_t>(rank)] = take_step(group, samples);
      group.close();
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// Returns the lines of the page between ```rank R and ```.
std::vector<std::string> listing_on_the_page(int rank) {
  std::ifstream page(LOCKSTEP_SOURCE_DIR "/docs/worked-example.md");
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```rank" + std::to_string(rank)) {
      inside = true;
    } else if (inside && line == "```") {
      break;
    } else if (inside) {
      lines.push_back(line.substr(0, line.find("  ")));  // without the remark after it
    }
  }
  return lines;
}

/// Only shard 2, on rank 1, has positives and samples that count.
const Samples seven{.x = {1, 2, 3, 4, 8, 16, 5}, .target = {0, 0, 0, 0, 1, 1, 0}, .counts = {0, 0, 0, 0, 1, 1, 0}};

TEST(WorkedExample, IsAsThePageSays) {
  const std::vector<WorkedOutcome> outcomes = take_step(seven);
  for (int rank = 0; rank < ranks; ++rank) {
    const WorkedOutcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(outcome.listing, listing_on_the_page(rank)) << "rank " << rank;
    EXPECT_EQ(outcome.normalizer, 2) << "two samples count";
    EXPECT_EQ(outcome.weight, 6) << "0 − rate · (−6)";
  }
  using Sums = std::vector<double>;
  EXPECT_EQ(outcomes[0].sums, Sums{0}) << "shards 0 and 1: nothing counts";
  EXPECT_EQ(outcomes[1].sums, Sums{-6}) << "shard 2: (½ − 1)·8·½ + (½ − 1)·16·½";
  EXPECT_EQ(outcomes[2].sums, Sums{0}) << "shard 3, of whose micro-batches one is empty";
}

/// Before it, a step of ten samples is taken, in which every sample counts.
TEST(WorkedExample, OfTenSamplesAddsUpByHand) {
  Samples ten;
  for (const double x : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
    ten.x.push_back(x);
    ten.target.push_back(0);
    ten.counts.push_back(1);
  }
  const std::vector<WorkedOutcome> outcomes = take_step(ten);
  const double factor = 1.0 / 10;
  const auto gradient = [&](double x) { return (0.5 - 0) * factor * x; };
  const auto micro = [&](double a, double b) { return gradient(a) + gradient(b); };
  const double shard0 = micro(1, 2) + gradient(3);
  const double shard1 = micro(4, 5) + gradient(6);
  const double shard2 = gradient(7) + gradient(8);
  const double shard3 = gradient(9) + gradient(10);
  EXPECT_DOUBLE_EQ(outcomes[0].sums.at(0), shard0 + shard1) << "rank 0 has two shards, which are one node";
  EXPECT_DOUBLE_EQ(outcomes[1].sums.at(0), shard2);
  EXPECT_DOUBLE_EQ(outcomes[2].sums.at(0), shard3);
  for (const WorkedOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.normalizer, 10);
    EXPECT_EQ(outcome.weight, -((outcomes[0].sums[0]) + (outcomes[1].sums[0] + outcomes[2].sums[0])))
        << "the root, in this order";
    EXPECT_DOUBLE_EQ(outcome.weight, -2.75);
  }
}

}  // namespace
}  // namespace lockstep::trainer
