// SPDX-License-Identifier: Apache-2.0
// nn_parity: trains a model for some steps, or takes its gradients at given weights, and writes down all that
// mpi-scripts/parity-pytorch.py needs to do the same in PyTorch.
#include <boost/program_options.hpp>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/fill.hpp"
#include "nn/parity_files.hpp"
#include "nn/trainee.hpp"

namespace lockstep::nn {
namespace {

constexpr std::int64_t classes = 10;

struct Options {
  std::string model = "lenet";
  std::string ops = "reference";
  std::string precision = "float64";
  std::int64_t steps = 100;
  std::int64_t batch = 8;
  std::uint64_t seed = 1;
  double learning_rate = 0.01;
  SgdOptions sgd{.momentum = 0.9};
  std::int64_t weights_every = 1;
  std::filesystem::path out = "parity";
  std::string weights_from;  ///< empty: train
};

DataSpec data_of(const std::string& model) {
  return model == "resnet20" ? DataSpec::of_images(3, 32, 32, classes) : DataSpec::of_images(1, 28, 28, classes);
}

struct Batch {
  std::vector<float> images;  ///< float32, so that both precisions see the same numbers
  std::vector<std::int32_t> labels;
};

/// Waves whose direction and length tell the class, under as much noise.
Batch draw_batch(const Options& options, std::int64_t step) {
  const TensorSpec image = data_of(options.model).at("images");
  const auto& [channels, height, width] = image.extent;
  Batch batch;
  batch.images.resize(static_cast<std::size_t>(options.batch * image.elements()));
  batch.labels.resize(static_cast<std::size_t>(options.batch));
  fill_uniform({batch.images.data(), {options.batch * image.elements()}, DType::float32}, options.seed,
               "images " + std::to_string(step), 0, 1.0);
  std::vector<float> drawn(batch.labels.size());
  fill_uniform({drawn.data(), {options.batch}, DType::float32}, options.seed, "labels " + std::to_string(step), 0,
               classes / 2.0);
  std::size_t pixel = 0;
  for (std::size_t n = 0; n < drawn.size(); ++n) {
    const auto label = static_cast<std::int32_t>(std::floor(drawn[n] + classes / 2.0)) % static_cast<int>(classes);
    batch.labels[n] = label;
    for (std::int64_t i = 0; i < image.elements(); ++i, ++pixel) {
      const auto x = static_cast<double>(i % width);
      const auto y = static_cast<double>(i / width % height);
      batch.images[pixel] +=
          static_cast<float>(std::sin((x * std::cos(label) + y * std::sin(label)) * 0.1 * (label + 2)));
    }
  }
  return batch;
}

nlohmann::json describe(const Layout& layout) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorSlot& slot : layout.tensors()) tensors.push_back({{"name", slot.name}, {"shape", slot.shape}});
  return tensors;
}

template <typename Real>
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        trainee_(make_model(options.model, data_of(options.model)), options.seed, nullptr,
                 options.ops == "onednn" ? ops::make_onednn_ops(1) : ops::make_reference_ops()) {}

  void train() {
    RawWriter weights(options_.out / "weights.bin");
    weights.write_tensors(trainee_.parameters, layout());
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      const Batch batch = write_batch(step);
      write_loss(trainee_.step(images_of(batch), batch.labels, options_.learning_rate, options_.sgd));
      if ((step + 1) % options_.weights_every == 0) weights.write_tensors(trainee_.parameters, layout());
    }
    RawWriter(options_.out / "state.bin").write_tensors(trainee_.state, trainee_.model.state());
  }

  /// Gradients at the weights that a training run in float64 had at the beginning of each step, rounded to float32 so
  /// that every precision starts from the same numbers.
  void gradients_along() {
    RawReader weights(std::filesystem::path(options_.weights_from) / "weights.bin");
    RawWriter gradients(options_.out / "gradients.bin");
    std::vector<double> tensor;
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      for (const TensorSlot& slot : layout().tensors()) {
        tensor.resize(static_cast<std::size_t>(slot.count.value));
        weights.read(tensor.data(), slot.count.value);
        for (std::size_t i = 0; i < tensor.size(); ++i) {
          trainee_.parameters[static_cast<std::size_t>(slot.offset.value) + i] = static_cast<float>(tensor[i]);
        }
      }
      const Batch batch = write_batch(step);
      write_loss(trainee_.differentiate(images_of(batch), batch.labels));
      gradients.write_tensors(trainee_.gradients, layout());
    }
  }

  void write_index() const {
    const nlohmann::json index{{"model", options_.model},
                               {"ops", options_.ops},
                               {"precision", options_.precision},
                               {"steps", options_.steps},
                               {"batch", options_.batch},
                               {"image", data_of(options_.model).at("images").extent},
                               {"classes", classes},
                               {"learning_rate", options_.learning_rate},
                               {"momentum", options_.sgd.momentum},
                               {"nesterov", options_.sgd.nesterov},
                               {"weight_decay", options_.sgd.weight_decay},
                               {"weights_every", options_.weights_every},
                               {"parameters", describe(layout())},
                               {"state", describe(trainee_.model.state())}};
    std::ofstream(options_.out / "index.json") << index.dump(1) << '\n';
  }

 private:
  [[nodiscard]] const Layout& layout() const { return trainee_.model.parameters(); }
  static std::vector<Real> images_of(const Batch& batch) { return {batch.images.begin(), batch.images.end()}; }

  Batch write_batch(std::int64_t step) {
    Batch batch = draw_batch(options_, step);
    images_file_.write(batch.images.data(), static_cast<std::int64_t>(batch.images.size()));
    labels_file_.write(batch.labels.data(), options_.batch);
    return batch;
  }
  void write_loss(double loss) { losses_file_.write(&loss, 1); }

  const Options& options_;
  TraineeOf<Real> trainee_;
  RawWriter images_file_{options_.out / "images.bin"};
  RawWriter labels_file_{options_.out / "labels.bin"};
  RawWriter losses_file_{options_.out / "losses.bin"};
};

template <typename Real>
void run(const Options& options) {
  std::filesystem::create_directories(options.out);
  Run<Real> run(options);
  run.write_index();
  options.weights_from.empty() ? run.train() : run.gradients_along();
}

/// Empty if only the usage was asked for.
std::optional<Options> parse(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description described("nn_parity");
  auto add = described.add_options();
  add("help", "show this text");
  add("model", po::value(&options.model), "lenet or resnet20");
  add("ops", po::value(&options.ops), "reference or onednn");
  add("precision", po::value(&options.precision), "float64 or float32");
  add("steps", po::value(&options.steps), "number of steps");
  add("batch", po::value(&options.batch), "images per step");
  add("seed", po::value(&options.seed), "of weights and images");
  add("lr", po::value(&options.learning_rate), "learning rate");
  add("momentum", po::value(&options.sgd.momentum), "of SGD");
  add("nesterov", po::bool_switch(&options.sgd.nesterov), "Nesterov's momentum");
  add("weight-decay", po::value(&options.sgd.weight_decay), "of SGD");
  add("weights-every", po::value(&options.weights_every), "write the weights after every so many steps");
  add("out", po::value(&options.out), "directory to write to");
  add("weights-from", po::value(&options.weights_from),
      "do not train: write gradients at the weights of this float64 run, which wrote them after every step");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, described), values);
  po::notify(values);
  if (values.count("help") == 0) return options;
  std::cout << described;
  return std::nullopt;
}

}  // namespace
}  // namespace lockstep::nn

int main(int argc, char** argv) {
  using namespace lockstep::nn;
  try {
    const auto options = parse(argc, argv);
    if (options) options->precision == "float32" ? run<float>(*options) : run<double>(*options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "nn_parity: " << error.what() << '\n';
    return 1;
  }
}
