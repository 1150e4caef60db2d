// SPDX-License-Identifier: Apache-2.0
// nn_parity trains a model for some steps, or computes its gradients at given weights, and records everything that
// mpi-scripts/parity/parity-pytorch.py needs to do the same in PyTorch.
#include <algorithm>
#include <boost/program_options.hpp>
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
#include "nn/drawn_run.hpp"
#include "nn/parity_files.hpp"

namespace lockstep::nn {
namespace {

struct Options {
  std::string model = "lenet";
  std::string ops = "reference";
  std::string precision = "float64";
  bool exact = false;               ///< onednn without Winograd
  std::vector<std::int64_t> image;  ///< channels, height, width; empty: those of the model's example
  std::int64_t steps = 100;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  DrawnOptions drawn{.batch = 8};
  std::int64_t weights_every = 1;
  std::filesystem::path out = "parity";
  std::string weights_from;  ///< empty: train

  [[nodiscard]] bool train() const { return weights_from.empty(); }
};

DataSpec data_of(const Options& options) {
  DataSpec data = Models().example(options.model);
  if (options.image.empty()) return data;
  if (options.image.size() != 3) throw Error(ErrorCode::invalid_argument, "--image needs channels, height and width");
  (void)data.at("images");  // throws an error that names the inputs if there are no images
  for (TensorSpec& spec : data.tensors) {
    if (spec.name == "images") spec.extent = {options.image[0], options.image[1], options.image[2]};
  }
  return data;
}

nlohmann::json describe(const std::vector<TensorSpec>& inputs) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorSpec& spec : inputs) {
    tensors.push_back({{"name", spec.name}, {"extent", spec.extent}, {"integer", spec.content == Content::integer}});
  }
  return tensors;
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
        data_(data_of(options)),
        run_(make_model(options.model, data_), data_.classes, options.drawn,
             options.ops == "onednn" ? ops::make_onednn_ops(1, options.exact) : ops::make_reference_ops()) {
    for (const TensorSpec& spec : inputs()) input_files_.emplace_back(options.out / (spec.name + ".bin"));
  }

  void train() {
    RawWriter weights(options_.out / "weights.bin");
    weights.write_tensors(run_.parameters, layout());
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      take_step(step);
      if ((step + 1) % options_.weights_every == 0) weights.write_tensors(run_.parameters, layout());
    }
    RawWriter(options_.out / "state.bin").write_tensors(run_.state, run_.model.state());
  }

  /// Computes gradients at the weights that a training run in float64 had at the beginning of each step, rounded to
  /// float32 so that every precision starts from the same numbers.
  void gradients_along() {
    RawReader weights(std::filesystem::path(options_.weights_from) / "weights.bin");
    RawWriter gradients(options_.out / "gradients.bin");
    std::vector<double> tensor;
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      for (const TensorSlot& slot : layout().tensors()) {
        tensor.resize(static_cast<std::size_t>(slot.count.value));
        weights.read(tensor.data(), slot.count.value);
        for (std::size_t i = 0; i < tensor.size(); ++i) {
          run_.parameters[static_cast<std::size_t>(slot.offset.value) + i] = static_cast<float>(tensor[i]);
        }
      }
      take_step(step);
      gradients.write_tensors(run_.gradients, layout());
    }
  }

  void write_index() {
    const nlohmann::json index{{"model", options_.model},
                               {"ops", options_.ops},
                               {"precision", options_.precision},
                               {"exact", options_.exact},
                               {"winograd", winograd_operators()},
                               {"steps", options_.steps},
                               {"batch", options_.drawn.batch},
                               {"seed", options_.drawn.seed},
                               {"inputs", describe(inputs())},
                               {"classes", data_.classes},
                               {"learning_rate", options_.drawn.learning_rate},
                               {"momentum", options_.momentum},
                               {"nesterov", options_.nesterov},
                               {"weight_decay", options_.weight_decay},
                               {"weights_every", options_.weights_every},
                               {"parameters", describe(layout())},
                               {"state", describe(run_.model.state())}};
    std::ofstream(options_.out / "index.json") << index.dump(1) << '\n';
  }

 private:
  [[nodiscard]] const Layout& layout() const { return run_.model.parameters(); }
  [[nodiscard]] const std::vector<TensorSpec>& inputs() const { return run_.model.graph().inputs(); }

  /// Returns how many operators of a step use Winograd's algorithm, forward and backward counted separately.
  [[nodiscard]] std::int64_t winograd_operators() {
    const std::vector<OperatorReport> operators = run_.model.operators(options_.drawn.batch);
    return std::count_if(operators.begin(), operators.end(),
                         [](const OperatorReport& op) { return op.algorithm.find("wino") != std::string::npos; });
  }

  /// Takes a step and records its batch and its loss.
  void take_step(std::int64_t step) {
    const double loss = run_.step(step);
    losses_file_.write(&loss, 1);
    for (std::size_t i = 0; i < input_files_.size(); ++i) {
      const auto& [reals, integers] = run_.batch[i];
      input_files_[i].write(reals.data(), static_cast<std::int64_t>(reals.size()));
      input_files_[i].write(integers.data(), static_cast<std::int64_t>(integers.size()));
    }
  }

  const Options& options_;
  DataSpec data_;
  DrawnRun<Real> run_;
  std::vector<RawWriter> input_files_;
  RawWriter losses_file_{options_.out / "losses.bin"};
};

template <typename Real>
void run(const Options& options) {
  std::filesystem::create_directories(options.out);
  Run<Real> run(options);
  run.write_index();
  options.train() ? run.train() : run.gradients_along();
}

void list_models() {
  for (const Models models; const std::string_view name : models.names()) std::cout << name << '\n';
}

/// Returns nothing if only a list was requested.
std::optional<Options> parse(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description described("nn_parity");
  auto add = described.add_options();
  add("help", "show this text");
  add("list", "show the models");
  add("model", po::value(&options.model), "which one");
  add("image", po::value(&options.image)->multitoken(), "channels, height and width, where not the model's example");
  add("ops", po::value(&options.ops), "reference or onednn");
  add("precision", po::value(&options.precision), "float64 or float32");
  add("exact", po::bool_switch(&options.exact), "onednn without Winograd's transforms");
  add("steps", po::value(&options.steps), "number of steps");
  add("batch", po::value(&options.drawn.batch), "samples per step");
  add("seed", po::value(&options.drawn.seed), "of weights, data and dropout");
  add("lr", po::value(&options.drawn.learning_rate), "learning rate");
  add("momentum", po::value(&options.momentum), "of SGD");
  add("nesterov", po::bool_switch(&options.nesterov), "Nesterov's momentum");
  add("weight-decay", po::value(&options.weight_decay), "of SGD");
  add("weights-every", po::value(&options.weights_every), "write the weights after every so many steps");
  add("out", po::value(&options.out), "directory to write to");
  add("weights-from", po::value(&options.weights_from),
      "do not train: write gradients at the weights of this float64 run, which wrote them after every step");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, described), values);
  po::notify(values);
  options.drawn.optimizer = OptimizerOptions{
      .momentum = options.momentum, .nesterov = options.nesterov, .weight_decay = options.weight_decay};
  if (!options.train()) options.drawn.optimizer.reset();
  if (values.count("help") == 0 && values.count("list") == 0) return options;
  if (values.count("list") == 0) std::cout << described;
  if (values.count("list") != 0) list_models();
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
