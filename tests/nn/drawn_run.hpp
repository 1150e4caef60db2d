// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "lockstep/nn/models.hpp"
#include "nn/graph/fill.hpp"

namespace lockstep::nn {

/// One tensor of a batch; either `reals` or `integers` is empty.
struct DrawnTensor {
  std::vector<float> reals;  ///< float32, so that both precisions get the same numbers
  std::vector<std::int32_t> integers;
};

/// Draws integers uniform in [0, below).
inline std::vector<std::int32_t> draw_integers(std::int64_t count, std::int64_t below, std::uint64_t seed,
                                               const std::string& stream) {
  const double half = static_cast<double>(below) / 2;
  std::vector<float> drawn(static_cast<std::size_t>(count));
  fill_uniform({drawn.data(), {count}, DType::float32}, seed, stream, 0, half);
  std::vector<std::int32_t> integers;
  integers.reserve(drawn.size());
  for (const float value : drawn)
    integers.push_back(static_cast<std::int32_t>(std::floor(value + half)) % static_cast<std::int32_t>(below));
  return integers;
}

/// Draws waves whose direction and length depend on the sample's class, plus noise of the same amplitude.
inline std::vector<float> draw_waves(const TensorSpec& spec, std::span<const std::int32_t> classes, std::uint64_t seed,
                                     const std::string& stream) {
  const auto count = static_cast<std::int64_t>(classes.size()) * spec.elements();
  std::vector<float> values(static_cast<std::size_t>(count));
  fill_uniform({values.data(), {count}, DType::float32}, seed, stream, 0, 1);
  const auto& [channels, height, width] = spec.extent;
  auto value = values.begin();
  for (const std::int32_t label : classes) {
    for (std::int64_t i = 0; i < spec.elements(); ++i, ++value) {
      const auto x = static_cast<double>(i % width);
      const auto y = static_cast<double>(i / width % height);
      *value += static_cast<float>(std::sin((x * std::cos(label) + y * std::sin(label)) * 0.1 * (label + 2)));
    }
  }
  return values;
}

/// Draws real targets, weights and boxes for losses: numbers in [0, 1), except that the far edges of "boxes" are in [1,
/// 2).
inline std::vector<float> draw_targets(const TensorSpec& spec, std::int64_t batch, std::uint64_t seed,
                                       const std::string& stream) {
  std::vector<float> values(static_cast<std::size_t>(batch * spec.elements()));
  fill_uniform({values.data(), {batch * spec.elements()}, DType::float32}, seed, stream, 0.5, 0.5);
  if (spec.name != "boxes") return values;
  const auto sample = static_cast<std::size_t>(spec.elements());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += i % sample < sample / 2 ? 0.0F : 1.0F;
  return values;
}

/// Draws the boxes of a detector with anchors, in pixels of images of this extent: class, center x, center y, width and
/// height of some, and columns without a box behind them. Centers are not on the borders of cells or half cells, where
/// the smallest difference in rounding would move a box to another cell.
inline std::vector<float> draw_boxes(const TensorSpec& spec, const std::array<std::int64_t, 3>& images,
                                     std::int64_t classes, std::int64_t batch, std::uint64_t seed,
                                     const std::string& stream) {
  const std::int64_t most = spec.extent[2];
  const auto [channels, height, width] = images;
  const auto draw = [&](std::int64_t below, const char* what) {
    return draw_integers(batch * most, below, seed, stream + what);
  };
  const std::vector<std::int32_t> labels = draw(classes, " label");
  const std::vector<std::int32_t> columns = draw(width, " x");
  const std::vector<std::int32_t> rows = draw(height, " y");
  const std::vector<std::int32_t> widths = draw(width, " width");
  const std::vector<std::int32_t> heights = draw(height, " height");
  std::vector<float> values(static_cast<std::size_t>(batch * spec.elements()));
  for (std::int64_t i = 0; i < batch * most; ++i) {
    const std::int64_t sample = i / most;
    const std::int64_t column = i % most;
    const auto drawn = static_cast<std::size_t>(i);
    const bool is_there = column < 1 + (sample + labels.front()) % most;
    const float box[] = {static_cast<float>(labels[drawn]), static_cast<float>(columns[drawn]) + 0.375F,
                         static_cast<float>(rows[drawn]) + 0.625F, static_cast<float>(widths[drawn]) + 4.375F,
                         static_cast<float>(heights[drawn]) + 4.625F};
    for (std::int64_t k = 0; k < 5; ++k)
      values[static_cast<std::size_t>((sample * 5 + k) * most + column)] = is_there ? box[k] : k == 0 ? -1.0F : 0.0F;
  }
  return values;
}

/// Returns the first class of a graph's targets: 1 where class 0 is the blank of CTC.
inline std::int32_t first_target(const Graph& graph) {
  for (const Node& node : graph.nodes())
    if (const auto* ctc = std::get_if<Ctc>(&node.op); ctc != nullptr && ctc->blank == 0) return 1;
  return 0;
}

/// Draws the inputs of a model for the batch of one step: integers below `classes`, "targets" from `first` on, "images"
/// that depend on the sample's label, and other real numbers in the range that losses accept.
inline std::vector<DrawnTensor> draw_batch(std::span<const TensorSpec> inputs, std::int64_t classes, std::int64_t batch,
                                           std::uint64_t seed, std::int64_t step, std::int32_t first = 0) {
  const auto stream = [step](const std::string& name) { return name + " " + std::to_string(step); };
  const std::vector<std::int32_t> labels = draw_integers(batch, classes, seed, stream("labels"));
  std::vector<DrawnTensor> tensors;
  for (const TensorSpec& spec : inputs) {
    DrawnTensor& drawn = tensors.emplace_back();
    if (spec.name == "boxes" && spec.extent[0] == 5) {
      drawn.reals = draw_boxes(spec, inputs.front().extent, classes, batch, seed, stream(spec.name));
    } else if (spec.content == Content::real && spec.name != "images") {
      drawn.reals = draw_targets(spec, batch, seed, stream(spec.name));
    } else if (spec.content == Content::real) {
      drawn.reals = draw_waves(spec, labels, seed, stream(spec.name));
    } else {
      drawn.integers = draw_integers(batch * spec.elements(), classes, seed, stream(spec.name));
      if (spec.name == "targets")
        for (std::int32_t& target : drawn.integers) target += first;
    }
  }
  return tensors;
}

/// The options of a run on drawn data.
struct DrawnOptions {
  std::int64_t batch = 4;
  std::uint64_t seed = 1;  ///< seed of weights, data and dropout
  double learning_rate = 0.01;
  std::optional<OptimizerOptions> optimizer = OptimizerOptions{.momentum = 0.9};  ///< if empty, weights are not updated
  Observer* observer = nullptr;
  OptimizationPasses passes = {};
};

/// A model with its own memory that takes steps on drawn batches.
template <typename Real>
class DrawnRun {
 public:
  static constexpr DType dtype = std::is_same_v<Real, float> ? DType::float32 : DType::float64;

  DrawnRun(Graph graph, std::int64_t classes, DrawnOptions options, std::unique_ptr<ops::Ops> ops)
      : ops_(std::move(ops)),
        options_(std::move(options)),
        classes_(classes),
        model(std::move(graph), *ops_,
              {.dtype = dtype,
               .optimizer = options_.optimizer,
               .passes = options_.passes,
               .observer = options_.observer}),
        parameters(static_cast<std::size_t>(model.parameters().count().value)),
        gradients(parameters.size()),
        state(static_cast<std::size_t>(model.state().count().value)),
        velocity_(options_.optimizer ? parameters.size() : 0) {
    model.bind({.parameters = view(parameters),
                .gradients = view(gradients),
                .state = view(state),
                .optimizer_state = {view(velocity_)}});
    model.initialize(options_.seed);
  }

  /// Draws the batch of this number.
  void draw(std::int64_t number) {
    const std::vector<TensorSpec>& inputs = model.graph().inputs();
    number_ = number;
    batch = draw_batch(inputs, classes_, options_.batch, options_.seed, number, first_target(model.graph()));
    reals_.clear();
    for (const DrawnTensor& tensor : batch) reals_.emplace_back(tensor.reals.begin(), tensor.reals.end());
    feed_.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const void* integers = batch[i].integers.data();
      feed_.push_back(inputs[i].content == Content::real ? reals_[i].data() : integers);
    }
  }
  /// Takes a step on the batch's first samples. @return the loss before it
  double train(std::int64_t samples) {
    SingleRank alone;
    return model
        .train({.samples = samples, .inputs = feed_},
               {.learning_rate = options_.learning_rate,
                .samples = static_cast<double>(samples),
                .rng_key = {.seed = options_.seed, .step = number_}},
               alone)
        .loss;
  }
  Prediction predict(std::int64_t samples) { return model.predict({.samples = samples, .inputs = feed_}); }
  /// Takes a step on the batch of this number. @return the loss before it
  double step(std::int64_t number) {
    draw(number);
    return train(options_.batch);
  }

 private:
  static Buffer view(std::vector<Real>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}, dtype};
  }

  std::unique_ptr<ops::Ops> ops_;
  DrawnOptions options_;
  std::int64_t classes_;

 public:
  Model model;
  std::vector<Real> parameters;
  std::vector<Real> gradients;  ///< of the last step; means over its samples
  std::vector<Real> state;
  std::vector<DrawnTensor> batch;  ///< of the last step; the graph's inputs

 private:
  std::int64_t number_ = 0;
  std::vector<std::vector<Real>> reals_;
  std::vector<const void*> feed_;
  std::vector<Real> velocity_;
};

}  // namespace lockstep::nn
