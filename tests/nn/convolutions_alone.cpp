// SPDX-License-Identifier: Apache-2.0
// nn_convolutions_alone measures the speed limit of a model's convolutions: each pass of each one with the fastest of
// oneDNN's direct and Winograd kernels, in the formats that oneDNN prefers, on one thread. compare-ddp.sh shows the
// fraction of that speed which lockstep reaches. It prints one JSON object.
#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "nn/graph/fill.hpp"
#include "ops/onednn/primitives/primitive.hpp"
#include "ops/onednn/windowed.hpp"

namespace lockstep::nn {
namespace {

using namespace ops::onednn;  // the kernels are oneDNN's

constexpr dnnl::algorithm algorithms[] = {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd};

/// One convolution of the model, with a batch size.
struct Site {
  ops::Convolution op;
  ops::Shape in;
  bool of_images = false;  ///< whether the input is images, whose gradient is not needed
};

/// A primitive with its own memory, filled with numbers that are neither zero nor denormal.
class Trial {
 public:
  template <typename PrimitiveType, typename PrimitiveDesc>
  Trial(ContextPtr context, PrimitiveType primitive, const PrimitiveDesc& desc,
        const std::vector<std::pair<int, Desc>>& arguments)
      : context_(std::move(context)), primitive_(std::move(primitive)), kernel_(desc.impl_info_str()) {
    for (const auto& [index, argument] : arguments) add(index, argument);
    add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
  }
  [[nodiscard]] const std::string& kernel() const { return kernel_; }

  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    primitive_.execute(context_->stream, arguments_);
    context_->stream.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  void add(int index, const Desc& desc) {
    dnnl::memory memory(desc, context_->engine);
    const auto count = static_cast<std::int64_t>(desc.get_size() / sizeof(float));
    if (count > 0) fill_uniform({memory.get_data_handle(), {count}, DType::float32}, 1, std::to_string(index), 0, 1);
    arguments_.emplace(index, memory);
  }

  ContextPtr context_;
  dnnl::primitive primitive_;
  std::string kernel_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

/// The three passes of a site with one algorithm; passes without a kernel are missing.
class Candidates {
 public:
  Candidates(ContextPtr context, const Site& site, dnnl::algorithm algorithm)
      : context_(std::move(context)), site_(site), algorithm_(algorithm) {}

  [[nodiscard]] std::map<std::string, Trial> trials() const {
    std::map<std::string, Trial> found;
    attempt(found, "forward", [&] {
      const auto desc = forward(algorithm_);
      return Trial(
          context_, dnnl::convolution_forward(desc), desc,
          {{DNNL_ARG_SRC, desc.src_desc()}, {DNNL_ARG_WEIGHTS, desc.weights_desc()}, {DNNL_ARG_DST, desc.dst_desc()}});
    });
    if (!site_.of_images) attempt(found, "data", [&] { return backward_data(); });
    attempt(found, "weights", [&] { return backward_weights(); });
    return found;
  }

 private:
  template <typename Make>
  static void attempt(std::map<std::string, Trial>& found, const char* pass, const Make& make) {
    try {
      found.emplace(pass, make());
    } catch (const dnnl::error&) {  // there is no such kernel
    }
  }

  [[nodiscard]] dnnl::convolution_forward::primitive_desc forward(dnnl::algorithm algorithm) const {
    return make_desc<dnnl::convolution_forward>(setting(), dnnl::prop_kind::forward_training, algorithm, src(),
                                                weights(), dst(), dims_of(site_.op.stride), dilation(), padding(),
                                                padding());
  }
  [[nodiscard]] Trial backward_data() const {
    const auto desc =
        make_backward_desc<dnnl::convolution_backward_data>(setting(), hint(), algorithm_, src(), weights(), dst(),
                                                            dims_of(site_.op.stride), dilation(), padding(), padding());
    return {context_,
            dnnl::convolution_backward_data(desc),
            desc,
            {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
             {DNNL_ARG_WEIGHTS, desc.weights_desc()},
             {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}}};
  }
  [[nodiscard]] Trial backward_weights() const {
    const auto desc = make_backward_desc<dnnl::convolution_backward_weights>(setting(), hint(), algorithm_, src(),
                                                                             weights(), dst(), dims_of(site_.op.stride),
                                                                             dilation(), padding(), padding());
    return {context_,
            dnnl::convolution_backward_weights(desc),
            desc,
            {{DNNL_ARG_SRC, desc.src_desc()},
             {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
             {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}}};
  }
  /// Returns the forward descriptor that backward descriptors need; the algorithm does not matter.
  [[nodiscard]] dnnl::convolution_forward::primitive_desc hint() const {
    return forward(dnnl::algorithm::convolution_direct);
  }

  [[nodiscard]] Desc src() const { return describe(dims_of(site_.in), Tag::any); }
  [[nodiscard]] Desc dst() const {
    return describe(dims_of(site_.op.signature(std::span(&site_.in, 1)).output), Tag::any);
  }
  [[nodiscard]] Desc weights() const {
    return describe(weight_dims(site_.op.groups, site_.op.out_channels, site_.in.channels, site_.op.kernel), Tag::any);
  }
  [[nodiscard]] Dims dilation() const { return {site_.op.dilation.height - 1, site_.op.dilation.width - 1}; }
  [[nodiscard]] Dims padding() const { return dims_of(site_.op.padding); }
  [[nodiscard]] PrimitiveParameters setting() const {
    return {context_->engine, attributes(),
            faulty_kernels(site_.op.stride, site_.op.groups, site_.in.channels, site_.op.out_channels)};
  }

  ContextPtr context_;
  Site site_;
  dnnl::algorithm algorithm_;
};

/// Returns the medians of trials that run in turn, after one warm-up round.
std::vector<double> times_of(std::vector<Trial*> trials, int rounds) {
  std::vector<std::vector<double>> times(trials.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const double seconds = trials[i]->seconds();
      if (round > 0) times[i].push_back(seconds);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_trial : times) {
    std::nth_element(of_trial.begin(), of_trial.begin() + static_cast<std::ptrdiff_t>(of_trial.size() / 2),
                     of_trial.end());
    medians.push_back(of_trial[of_trial.size() / 2]);
  }
  return medians;
}

/// Returns the distinct convolutions by their text in tables, with the number of each.
std::map<std::string, std::pair<Site, int>> sites_of(const Graph& graph, std::int64_t batch) {
  std::map<std::string, std::pair<Site, int>> sites;
  for (const Node& node : graph.nodes()) {
    const auto* convolution = std::get_if<ops::Convolution>(&node.op);
    if (convolution == nullptr) continue;
    Site site{.op = *convolution, .in = graph.shape(node.inputs[0]), .of_images = graph.input_of(node.inputs[0]) >= 0};
    site.in.batch = batch;
    const std::string key = site.op.text() + ", " + std::to_string(site.in.channels) + " → " +
                            std::to_string(site.op.out_channels) + ", " + std::to_string(site.in.height) + "×" +
                            std::to_string(site.in.width) + (site.of_images ? ", images" : "");
    ++sites.try_emplace(key, site, 0).first->second.second;
  }
  return sites;
}

/// Adds the times of a batch with each algorithm to the sums.
nlohmann::json measure(const ContextPtr& context, const Site& site, int number, int rounds,
                       std::map<std::string, double>& sums) {
  nlohmann::json shown;
  std::vector<std::map<std::string, Trial>> by_algorithm;
  for (const dnnl::algorithm algorithm : algorithms)
    by_algorithm.push_back(Candidates(context, site, algorithm).trials());
  for (auto& [pass, direct] : by_algorithm[0]) {
    std::vector<Trial*> trials{&direct};
    const auto winograd = by_algorithm[1].find(pass);
    if (winograd != by_algorithm[1].end()) trials.push_back(&winograd->second);
    const std::vector<double> times = times_of(trials, rounds);
    const double best = *std::min_element(times.begin(), times.end());
    sums["direct"] += number * times[0];
    sums["fastest"] += number * best;
    shown[pass] = {{"direct_seconds", times[0]}, {"direct_kernel", direct.kernel()}};
    if (times.size() == 1) continue;
    shown[pass].update({{"winograd_seconds", times[1]}, {"winograd_kernel", trials[1]->kernel()}});
  }
  return shown;
}

struct AloneOptions {
  std::string model = "resnet20";
  std::vector<std::int64_t> image = {3, 32, 32};
  std::int64_t batch = 64;
  int rounds = 5;
};

nlohmann::json measure_model(const AloneOptions& options) {
  if (options.image.size() != 3) throw Error(ErrorCode::invalid_argument, "--image needs channels, height and width");
  const auto ops = ops::make_onednn_ops(1);  // on one thread
  const auto context = std::make_shared<Context>();
  const Graph graph =
      make_model(options.model, DataSpec::of_images(options.image[0], options.image[1], options.image[2], 10));
  std::map<std::string, double> sums;
  nlohmann::json layers = nlohmann::json::array();
  for (const auto& [text, found] : sites_of(graph, options.batch)) {
    const auto& [site, number] = found;
    nlohmann::json layer{{"convolution", text}, {"number", number}};
    layer["passes"] = measure(context, site, number, options.rounds, sums);
    layers.push_back(std::move(layer));
  }
  if (layers.empty()) throw Error(ErrorCode::invalid_argument, options.model + " has no convolutions");
  const auto rate = [&](const char* way) { return static_cast<double>(options.batch) / sums[way]; };
  return {{"model", options.model},
          {"batch", options.batch},
          {"direct", rate("direct")},
          {"fastest", rate("fastest")},
          {"layers", layers}};
}

std::optional<AloneOptions> parse_alone(int argc, char** argv) {
  namespace po = boost::program_options;
  AloneOptions options;
  po::options_description described("nn_convolutions_alone");
  auto add = described.add_options();
  add("help", "show this text");
  add("model", po::value(&options.model), "a classifier");
  add("image", po::value(&options.image)->multitoken(), "channels, height and width");
  add("batch", po::value(&options.batch), "images at a time, of one thread");
  add("rounds", po::value(&options.rounds), "how often each kernel runs");
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
    const auto options = parse_alone(argc, argv);
    if (options) std::cout << measure_model(*options) << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "nn_convolutions_alone: " << error.what() << '\n';
    return 1;
  }
}
