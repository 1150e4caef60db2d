// SPDX-License-Identifier: Apache-2.0
// The program `train` with a model, a data set and an operator of one's own:
//   mpirun -np 2 own_model --epochs 4       learns to tell waves by their length
//   own_model --help                        lists model and data set among the others, and all options
#include <cmath>
#include <cstdint>
#include <lockstep/train.hpp>
#include <memory>
#include <span>
#include <vector>

namespace {

namespace nn = lockstep::nn;
namespace ops = lockstep::ops;
using lockstep::Buffer;
using lockstep::Content;
using lockstep::DType;

/// A data set: 32 points of a wave with one of three lengths, each sample from a place of its own. Every sample is a
/// slice of each of its tensors, which have names.
class Waves final : public lockstep::data::Dataset {
 public:
  Waves(std::int64_t size, std::int64_t first) : size_(size), first_(first) {}
  std::string name() const override { return "waves"; }
  std::vector<lockstep::TensorSpec> tensors() const override {
    return {{"signal", {1, 1, points}}, {"labels", {1, 1, 1}, Content::integer}};
  }
  std::int64_t size() const override { return size_; }
  std::int64_t classes() const override { return 3; }
  /// Overwrites a sample; real numbers are wanted as float or as double.
  void read(const lockstep::data::SampleKey& key, std::span<const Buffer> tensors) const override {
    const std::int64_t sample = first_ + key.index;
    const auto label = static_cast<std::int32_t>(sample % 3);
    *static_cast<std::int32_t*>(tensors[1].data) = label;
    for (std::int64_t i = 0; i < points; ++i) {
      const double y = std::sin(0.3 * static_cast<double>((label + 1) * i) + 0.7 * static_cast<double>(sample));
      if (tensors[0].dtype == DType::float32) static_cast<float*>(tensors[0].data)[i] = static_cast<float>(y);
      if (tensors[0].dtype == DType::float64) static_cast<double*>(tensors[0].data)[i] = y;
    }
  }

 private:
  static constexpr std::int64_t points = 32;
  std::int64_t size_;
  std::int64_t first_;
};

/// An operator: y = x², element by element. It says what it makes of inputs of some shape, and gives a kernel.
class Square final : public ops::CustomOperator {
 public:
  ops::Signature signature(std::span<const ops::Shape> inputs) const override { return {.output = inputs[0]}; }
  std::string text() const override { return "square"; }
  std::unique_ptr<ops::Kernel> make(std::span<const ops::Format> inputs) const override {
    if (inputs[0].dtype == DType::float32) return std::make_unique<Loops<float>>(inputs[0]);
    return std::make_unique<Loops<double>>(inputs[0]);
  }

 private:
  template <typename Real>
  class Loops final : public ops::Kernel {
   public:
    explicit Loops(const ops::Format& in) : Kernel({.inputs = {in}, .output = in}), count_(in.shape.count()) {}

   private:
    void forward(const ops::Arguments& call) override {
      const auto* x = static_cast<const Real*>(call.inputs[0]);
      for (std::int64_t i = 0; i < count_; ++i) static_cast<Real*>(call.output)[i] = x[i] * x[i];
    }
    void backward(const ops::Arguments& call) override {
      const auto* x = static_cast<const Real*>(call.inputs[0]);
      const auto* dy = static_cast<const Real*>(call.output_gradient);
      auto* dx = static_cast<Real*>(call.input_gradients[0]);  // null where nobody wants it
      for (std::int64_t i = 0; dx != nullptr && i < count_; ++i) dx[i] = 2 * x[i] * dy[i];
    }
    std::int64_t count_;
  };
};

/// A model: filters, the energy of what they let through, and a linear layer. It is described only: which weights there
/// are follows from the operators; `train` makes them, the same on every rank, and keeps them so.
nn::Graph make_energy(const nn::DataSpec& data) {
  nn::Graph graph("energy");
  graph.input(data.at("signal"));
  graph.add("filters", nn::Linear{.out_features = 16});  // its weights: "filters.weight", "filters.bias"
  graph.add("energy", nn::Custom{std::make_shared<Square>()});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);  // cross-entropy of what was made last against "labels"
  return graph;
}

lockstep::data::DatasetPair load_waves(const lockstep::data::DatasetOptions&) {
  return {std::make_shared<Waves>(1200, 0), std::make_shared<Waves>(300, 1200)};
}

}  // namespace

int main(int argc, char** argv) {
  // README: begin
  lockstep::Registry registry;  // knows what comes with lockstep
  registry.models.add({.name = "energy", .make = make_energy, .defaults = {.learning_rate = 0.05, .batch = 60}});
  registry.datasets.add({.name = "waves", .load = load_waves});
  registry.model = "energy";
  registry.dataset = "waves";
  return lockstep::train_main(argc, argv, registry);  // reads the options, trains on all ranks, and says how it went
  // README: end
}
