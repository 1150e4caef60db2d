// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/ops/reference.hpp"

namespace lockstep::nn {

/// A reducer that does nothing; tests override what they look at.
class QuietReducer : public GradientReducer {
 public:
  [[nodiscard]] int size() const override { return 1; }
  void reduce(int /*parameter*/, Queue /*queue*/) override {}
  void progress() override {}
  void sum(const Buffer& /*numbers*/, Queue /*queue*/) override {}
  void gather(const Buffer& /*own*/, const Buffer& /*all*/, Queue /*queue*/) override {}
  void finish(const Buffer& /*numbers*/, Queue /*queue*/) override {}
  void gather_parameters(Queue /*queue*/) override {}

 protected:
  static std::span<double> span_of(const Buffer& numbers) {
    return {static_cast<double*>(numbers.data), static_cast<std::size_t>(numbers.count.value)};
  }
};

/// Records the order of calls; −1 stands for `progress`.
class RecordingReducer final : public QuietReducer {
 public:
  static constexpr int pause = -1;
  void reduce(int parameter, Queue /*queue*/) override { calls.push_back(parameter); }
  void progress() override { calls.push_back(pause); }
  [[nodiscard]] std::vector<int> parameters() const {
    std::vector<int> found;
    for (const int call : calls) {
      if (call != pause) found.push_back(call);
    }
    return found;
  }
  std::vector<int> calls;
};

/// A classifier with its own memory.
template <typename Real>
class TraineeOf {
 public:
  static constexpr DType dtype = std::is_same_v<Real, float> ? DType::float32 : DType::float64;

  explicit TraineeOf(Graph graph, std::uint64_t seed = 1, Observer* observer = nullptr,
                     std::unique_ptr<ops::Ops> ops = ops::make_reference_ops(), OptimizationPasses passes = {})
      : ops_(std::move(ops)),
        model(std::move(graph), *ops_, {.dtype = dtype, .passes = passes, .observer = observer}),
        parameters(static_cast<std::size_t>(model.parameters().count().value)),
        gradients(parameters.size()),
        velocity(parameters.size()),
        state(static_cast<std::size_t>(model.state().count().value)) {
    model.bind({.parameters = view(parameters), .gradients = view(gradients), .state = view(state)});
    model.initialize(seed);
  }

  static Buffer view(std::vector<Real>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}, dtype};
  }
  /// Runs the forward and backward pass. Gradients and the loss are sums over the samples.
  StepResult differentiate(const Real* images, const std::int32_t* labels, std::int64_t batch,
                           GradientReducer& reducer) {
    const void* inputs[] = {images, labels};
    return model.train({.samples = batch, .inputs = inputs}, {.samples = 1}, reducer);
  }
  StepResult differentiate(const Real* images, const std::int32_t* labels, std::int64_t batch) {
    SingleRank alone;
    return differentiate(images, labels, batch, alone);
  }
  /// Like `differentiate`. @return the mean loss
  double differentiate(const std::vector<Real>& images, const std::vector<std::int32_t>& labels) {
    const auto batch = static_cast<std::int64_t>(labels.size());
    return differentiate(images.data(), labels.data(), batch).loss / static_cast<double>(batch);
  }
  ops::LossSums evaluate(const Real* images, const std::int32_t* labels, std::int64_t batch) {
    const void* inputs[] = {images, labels};
    return model.predict({.samples = batch, .inputs = inputs}).losses.front();
  }
  /// Takes one step of SGD. @return the mean loss before it
  double step(const std::vector<Real>& images, const std::vector<std::int32_t>& labels, double learning_rate,
              const OptimizerOptions& options = {.momentum = 0.9}) {
    const double loss = differentiate(images, labels);
    if (!optimizer_ || optimizer_->options() != options) {
      optimizer_.emplace(model.parameters(), options);
      const LayoutPart whole{{0}, model.parameters().count()};
      const Buffer momentum = view(velocity);
      updates_ = optimizer_->steps(view(parameters), view(gradients), {&momentum, 1}, scalars_, {}, {&whole, 1});
    }
    scalars_ = {.learning_rate = learning_rate, .gradient_scale = 1 / static_cast<double>(labels.size())};
    ops_->update(updates_);
    return loss;
  }

 private:
  std::unique_ptr<ops::Ops> ops_;
  std::optional<Optimizer> optimizer_;
  std::vector<ops::UpdateStep> updates_;
  ops::UpdateScalars scalars_;

 public:
  Model model;
  std::vector<Real> parameters;
  std::vector<Real> gradients;
  std::vector<Real> velocity;
  std::vector<Real> state;
};

/// Uses the reference operators in float64.
using Trainee = TraineeOf<double>;

/// Returns the number of elements of one image of a classifier.
inline std::int64_t image_elements(const Graph& graph) { return graph.inputs().front().elements(); }

/// Returns smooth values in [−1, 1] without a pattern to which a layer could be blind.
inline std::vector<double> wavy(std::int64_t count, double phase = 0) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(i);
    values[i] = std::sin(1.7 * x + phase) * std::cos(0.31 * x * x + phase);
  }
  return values;
}

inline std::vector<std::int32_t> cycling_labels(std::int64_t count, std::int32_t classes) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i) % classes;
  return labels;
}

/// Returns a small network with everything that makes backward passes hard: batch norm, an identity and a projection
/// shortcut, a result with three readers, and both pools.
inline Graph knotty_network() {
  const DataSpec data = DataSpec::of_images(2, 8, 8, 3);
  Graph network("knotty");
  network.input(data.at("images"));
  const Convolution same{.out_channels = 4, .kernel = 3, .padding = 1, .bias = false};
  network.add("conv1", same);
  network.add("bn1", BatchNorm{});
  const int stem = network.add("relu1", Relu{});
  network.add("a.conv", same);
  const int a = network.add("a.bn", BatchNorm{});
  const int b = network.add("b.conv", Convolution{.out_channels = 4, .kernel = 3, .padding = 1}, {stem});
  const int first = network.add("add1", Add{}, {a, stem});
  network.add("add2", Add{}, {first, b});
  const int block = network.add("relu2", Relu{});
  network.add("c.conv", Convolution{.out_channels = 6, .kernel = 3, .stride = 2, .padding = 1, .bias = false});
  const int c = network.add("c.bn", BatchNorm{});
  network.add("c.downsample", Convolution{.out_channels = 6, .kernel = 1, .stride = 2, .bias = false}, {block});
  const int shortcut = network.add("c.downbn", BatchNorm{});
  network.add("add3", Add{}, {c, shortcut});
  network.add("relu3", Relu{});
  network.add("maxpool", MaxPool{});
  network.add("avgpool", AveragePool{});
  network.add("fc", Linear{.out_features = 3});
  classify(network, data);
  return network;
}

}  // namespace lockstep::nn
