// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::size_t side = 8;

template <typename Real>
constexpr DType precision = std::is_same_v<Real, float> ? DType::float32 : DType::float64;

/// Takes a step with one sample on each rank, every pixel of which is `pixel`.
template <typename Real>
Error error_of_step(Replica& replica, std::size_t pixels, Real pixel, std::int32_t label) {
  std::vector<Real> image(pixels, pixel);
  std::vector<std::int32_t> labels{label};
  const std::array<Buffer, 2> tensors{Buffer(std::span(image)), Buffer(std::span(labels))};
  try {
    RunState run;
    replica.submit({.samples = {1}, .step_samples = {3}, .tensors = tensors}, 0.1, 0);
    replica.finish(run);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::unsupported, "nothing was thrown"};
}

/// Returns the error of all ranks in a step in which the images of ranks 1 and 2 are NaNs. Their weights do not change.
template <typename Real>
Error error_of_ranks(const World& world, ops::Ops& ops, bool zero = false) {
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  std::optional<Error> error;
  {
    const TrainerOptions options{.precision = precision<Real>, .batch = {3}, .zero = zero};
    const nn::DataSpec data = nn::DataSpec::of_images(1, side, side, 10);
    Replica replica(members, ops, nn::make_model("lenet", data), {data.tensors}, options, nullptr);
    const testing_support::WholeState before = testing_support::whole_state(replica.store());
    const bool at_fault = world.rank() != Rank{0};
    error = error_of_step(replica, side * side, at_fault ? std::numeric_limits<Real>::quiet_NaN() : Real{0.5}, 4);
    EXPECT_EQ(testing_support::whole_state(replica.store()), before);
  }
  members.close();
  EXPECT_EQ(error->context().peers, (std::vector<int>{1, 2}));
  EXPECT_TRUE(error->is_on_every_rank());
  return *error;
}

TEST(NotFinite, EveryRankNamesTheRanksWithTheirHostsAndTensorsAndKeepsItsWeights) {
  World world;
  const auto ops = ops::make_reference_ops();
  for (const bool zero : {false, true}) {
    const Error error = error_of_ranks<double>(world, *ops, zero);
    for (const std::string rank : {"1", "2"}) {
      EXPECT_NE(error.message().find("'fc2.bias' and 4 more on rank " + rank + " (" + world.host() + ")"),
                std::string::npos)
          << error.message();
    }
  }
  world.close();
}

/// oneDNN's ReLU turns NaNs into zeros, so the loss does not show them.
TEST(NotFinite, IsFoundBehindARelu) {
  World world;
  const auto ops = ops::make_onednn_ops(1);
  const Error error = error_of_ranks<float>(world, *ops);
  // How far NaNs get depends on the kernels that oneDNN has for this processor.
  EXPECT_TRUE(error.message().starts_with("gradients are not finite: '")) << error.message();
  for (const std::string rank : {"1", "2"})
    EXPECT_NE(error.message().find(" on rank " + rank + " (" + world.host() + ")"), std::string::npos)
        << error.message();
  world.close();
}

/// A label that is no class is an error of all ranks, which names the rank, the sample and the value, and after which
/// they can go on.
TEST(BadData, IsAnErrorOfEveryRankThatNamesTheSample) {
  World world;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    const auto ops = ops::make_reference_ops();
    const nn::DataSpec data = nn::DataSpec::of_images(1, side, side, 10);
    Replica replica(members, *ops, nn::make_model("lenet", data), {data.tensors}, {.batch = {6}}, nullptr);
    const testing_support::WholeState before = testing_support::whole_state(replica.store());
    std::vector<float> images(2 * side * side, 0.5F);
    std::vector<std::int32_t> labels{4, world.rank() == Rank{1} ? 10 : 9};
    const std::array<Buffer, 2> tensors{Buffer(std::span(images)), Buffer(std::span(labels))};
    const std::vector<std::int64_t> ids{70, 71};
    RunState run;
    const data::Batch batch{.samples = {2}, .step_samples = {6}, .ids = ids, .tensors = tensors};
    try {
      replica.submit(batch, 0.1, 0);
      replica.finish(run);
      ADD_FAILURE() << "the label was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(error.message().find("rank 1 (" + world.host() +
                                     "): 'loss': label of sample 1 (number 71 of the data "
                                     "set) is 10; there are 10 classes, numbered from 0"),
                std::string::npos)
          << error.message();
      EXPECT_EQ(error.context().peers, std::vector<int>{1});
      EXPECT_TRUE(error.is_on_every_rank());
    }
    EXPECT_EQ(testing_support::whole_state(replica.store()), before);
    labels[1] = 9;
    replica.submit(batch, 0.1, 0);
    replica.finish(run);
    EXPECT_NE(testing_support::whole_state(replica.store()), before);
  }
  members.close();
  world.close();
}

/// Returns the class with the smallest of `classes` weights.
std::int32_t least_likely(const Store& store, int classes) {
  const auto* weights = static_cast<const double*>(store.values().data);
  return static_cast<std::int32_t>(std::min_element(weights, weights + classes) - weights);
}

/// The difference of the logits is infinite, so their softmax is 0 and 1.
TEST(NotFinite, ALossWhoseGradientsAreFiniteNamesTheRanksWhoseOwnItIs) {
  World world;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    const auto ops = ops::make_reference_ops();
    const nn::DataSpec data = nn::DataSpec::of_images(1, 1, 1, 10);
    nn::Graph graph("one pixel");
    graph.input(data.at("images"));
    graph.add("fc", nn::Linear{.out_features = 10});
    nn::classify(graph, data);
    Replica replica(members, *ops, graph, {data.tensors}, {.precision = DType::float64, .batch = {3}}, nullptr);
    const testing_support::WholeState before = testing_support::whole_state(replica.store());
    const double pixel = world.rank() == Rank{1} ? std::numeric_limits<double>::max() : 0;
    const Error error = error_of_step(replica, 1, pixel, least_likely(replica.store(), 10));
    EXPECT_NE(error.message().find("the loss is not finite (inf); on rank 1 the rank's own loss is not"),
              std::string::npos)
        << error.message();
    EXPECT_EQ(error.context().peers, std::vector<int>{1});
    EXPECT_TRUE(error.is_on_every_rank());
    EXPECT_EQ(testing_support::whole_state(replica.store()), before);
  }
  members.close();
  world.close();
}

/// Everything that a checkpoint would hold: a number of each kind that is not finite is found on whichever rank has it.
TEST(NotFinite, StateIsNeitherSavedNorLoadedAndTheTensorIsNamed) {
  World world;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  const data::TemporaryDirectory directory;
  {
    const auto ops = ops::make_reference_ops();
    const data::DatasetPair data = testing_support::small_digits(12, 6, side);
    nn::Graph graph("with batch norm");
    const nn::DataSpec spec = nn::DataSpec::of_images(1, side, side, 10);
    graph.input(spec.at("images"));
    graph.add("norm", nn::BatchNorm{});
    graph.add("fc", nn::Linear{.out_features = 10});
    nn::classify(graph, spec);
    Trainer trainer(members, *ops, graph, data,
                    {.precision = DType::float64,
                     .batch = {6},
                     .optimizer = {.rule = ops::UpdateRule::adamw},
                     .step = {.ema = 0.5},
                     .zero = true});
    trainer.save_checkpoints({.folder = directory.path()});
    const Store& store = trainer.replica().store();
    std::vector<std::pair<Buffer, std::string>> kinds = {
        {slice(store.values(), store.owned().front().offset, {1}), "'values."},
        {store.averages(), "'"},
        {store.statistics().all(), "'norm.running_"}};
    for (std::size_t i = 0; i < store.state_names().size(); ++i)
      kinds.emplace_back(store.optimizer_state()[i], "'" + std::string(store.state_names()[i]) + '.');
    for (const auto& [buffer, name] : kinds) {
      const bool is_at_fault = world.rank() == Rank{2} && buffer.count.value > 0;
      auto* const first = static_cast<double*>(buffer.data);
      const double before = is_at_fault ? *first : 0;
      if (is_at_fault) *first = std::numeric_limits<double>::infinity();
      try {
        trainer.save();
        ADD_FAILURE() << name << " was saved";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::diverged);
        EXPECT_NE(error.message().find("not finite: " + name), std::string::npos) << error.message();
        EXPECT_EQ(error.context().peers, std::vector<int>{2});
        EXPECT_TRUE(error.is_on_every_rank());
      }
      if (is_at_fault) *first = before;
    }
    EXPECT_TRUE(world.rank() != Rank{0} || std::filesystem::is_empty(directory.path() / "checkpoints"));
    trainer.save();
    EXPECT_EQ(std::filesystem::exists(directory.path() / "checkpoints/last"), world.rank() == Rank{0});
  }
  members.close();
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
