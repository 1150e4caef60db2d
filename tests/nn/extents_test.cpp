// SPDX-License-Identifier: Apache-2.0
// A model with graphs for inputs of several sizes.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "nn/graph/same_model.hpp"
#include "nn/trainee.hpp"
#include "support/errors.hpp"

namespace lockstep::nn {
namespace {

Graph of_side(std::int64_t side, const std::string& model = "resnet20") {
  return make_model(model, DataSpec::of_images(2, side, side, 3));
}

/// Steps of a model that has graphs for several sizes, and of one that is made for each size, from the same weights.
void expect_steps_as_of_models_for_one_size(std::size_t kept) {
  Trainee all(of_side(8));
  std::map<std::int64_t, std::size_t> extents = {{8, 0}};
  for (const std::int64_t side : {12, 16}) extents[side] = all.model.add_extents(of_side(side));
  EXPECT_EQ(extents[16], 2U);
  all.model.keep_plans(kept);
  const std::vector<double> images = wavy(6 * 2 * 16 * 16);
  for (const auto& [side, batch] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {8, 2}, {16, 6}, {12, 3}, {8, 2}, {16, 1}, {12, 6}, {12, 0}, {8, 6}}) {
    const std::vector<std::int32_t> labels = cycling_labels(batch, 3);
    const void* inputs[] = {images.data(), labels.data()};
    Trainee one(of_side(side));
    SingleRank alone;
    const StepResult result =
        all.model.train({.samples = batch, .inputs = inputs, .extents = extents[side]}, {.samples = 1}, alone);
    EXPECT_EQ(result.loss, one.differentiate(images.data(), labels.data(), batch).loss);
    EXPECT_EQ(all.gradients, one.gradients) << side << " pixels, " << batch << " samples, " << kept << " kept";
    one.state = all.state;
    const Feed feed{.samples = batch, .inputs = inputs, .extents = extents[side]};
    EXPECT_EQ(all.model.predict(feed).losses.front().loss, one.evaluate(images.data(), labels.data(), batch).loss);
  }
}

TEST(Extents, OfAStepSelectItsGraphOverTheSameParameters) { expect_steps_as_of_models_for_one_size(3); }

TEST(Extents, WhosePlansWereDroppedArePreparedAgain) {
  expect_steps_as_of_models_for_one_size(1);
  expect_steps_as_of_models_for_one_size(2);
}

TEST(Extents, ShareTheArena) {
  Trainee all(of_side(8));
  const std::size_t large = all.model.add_extents(of_side(16));
  all.model.prepare(4, true, large);
  const Bytes arena = all.model.memory_use().activations;
  all.model.prepare(4);
  EXPECT_EQ(all.model.memory_use().activations, arena);
  EXPECT_EQ(arena, Trainee(of_side(16)).model.activation_bytes(4));
  EXPECT_LT(all.model.activation_bytes(4), arena);
}

TEST(Extents, ThatWereNotAddedAreRefused) {
  Trainee one(of_side(8));
  EXPECT_EQ(code_of([&] { one.model.prepare(1, true, 1); }), ErrorCode::invalid_argument);
}

TEST(Extents, NeedTheSameModel) {
  const auto refusal = [](const Graph& usual, const Graph& other) {
    return code_of([&] { require_same_model(usual, other); });
  };
  EXPECT_EQ(refusal(of_side(8), of_side(12)), std::nullopt);
  expect_error([] { require_same_model(of_side(8, "lenet"), of_side(12, "lenet")); }, ErrorCode::invalid_argument,
               {"'lenet'", "images of 12×12", "images of 8×8", "'fc1.weight' [128, 576]", "'fc1.weight' [128, 256]",
                "layer 'fc1' depends on the size"});
  const Graph one_channel = make_model("resnet20", DataSpec::of_images(1, 12, 12, 3));
  const Graph four_classes = make_model("resnet20", DataSpec::of_images(2, 12, 12, 4));
  for (const Graph& other : {of_side(12, "resnet32"), one_channel, four_classes})
    EXPECT_EQ(refusal(of_side(8), other), ErrorCode::invalid_argument) << other.name();
  EXPECT_EQ(refusal(of_side(8, "resnet32"), of_side(12)), ErrorCode::invalid_argument) << "fewer layers";
  Trainee trainee(of_side(8, "lenet"));
  EXPECT_EQ(code_of([&] { trainee.model.add_extents(of_side(12, "lenet")); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace lockstep::nn
