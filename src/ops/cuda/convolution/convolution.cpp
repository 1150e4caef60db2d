// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/convolution/convolution.hpp"

#include <algorithm>

#include "ops/cuda/device/tensor_view.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::ops::cuda {
namespace {

constexpr std::int64_t alignment = 256;  // of the parts of a workspace

/// The prefix of a word whose weight gradient is written in float32 although activations have 16 bits.
constexpr std::string_view float32_prefix = "float32,";

std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

template <typename Op>
ConvolutionLayer layer_of(const Op& op, const Format& in, DType dtype, bool tf32) {
  Shape one = in.shape;
  one.batch = std::max<std::int64_t>(one.batch, 1);
  return {.input = nhwc(in.shape, dtype),
          .output = nhwc(op.signature(std::span(&in.shape, 1)).output, dtype),
          .requests = requests_of(op, one, dtype, tf32),
          .activation = op.activation};
}

Packing packing_of(const ConvolutionRequest& request, std::int64_t out, std::int64_t in, std::int64_t groups) {
  return {.out = out,
          .in = in,
          .window = request.kernel.area(),
          .groups = groups,
          .packed_out = request.y.channels,
          .packed_in = request.x.channels / request.groups,
          .dense = request.groups == 1 && groups > 1,
          .dtype = request.dtype};
}

std::optional<Packing> bias_packing(std::int64_t channels, std::int64_t padded) {
  if (channels == padded) return std::nullopt;
  return Packing{.out = channels, .in = 1, .packed_out = padded, .packed_in = 1};
}

/// Plans for the three passes, which share one workspace; there are none for an empty batch.
class LayerKernel final : public ConvolutionKernel {
 public:
  LayerKernel(const ConvolutionLayer& layer, Convolutions& convolutions, const KernelAlgorithms* chosen,
              IfMissing if_missing)
      : layer_(layer), convolutions_(convolutions) {
    const ConvolutionRequest& request = layer.requests.forward;
    const Shape& image = layer.requests.transposed ? request.y : request.x;
    const bool is_image = layer.requests.transposed && layer.input.shape.batch > 0;
    if (is_image && (image.height > layer.input.shape.height || image.width > layer.input.shape.width)) {
      Shape shape = layer.input.shape;
      shape.height = image.height;
      shape.width = image.width;
      extended_ = nhwc(shape, layer.input.dtype);
      extend_ = make_reorder(layer.input, *extended_).forward;
      crop_ = make_reorder(*extended_, layer.input).forward;
    }
    Traits traits{.inputs = {layer.input},
                  .output = layer.output,
                  .packed = {layer.weights.bytes()},
                  .backward_reads_output = layer.activation != Activation::none,
                  .separates_gradients = true,
                  .statistics = layer.has_statistics ? statistics_count(layer.output) : 0};
    if (layer.has_bias) traits.packed.push_back(layer.bias ? layer.bias->bytes() : Bytes{});
    if (layer.input.shape.batch > 0) {
      const auto plan = [&](ConvolutionRequest of, std::string KernelAlgorithms::*pass) {
        std::string word = chosen == nullptr ? std::string() : chosen->*pass;
        if (word.starts_with(float32_prefix)) {
          word = word.substr(float32_prefix.size());
          of.result = DType::float32;
        }
        return convolutions.plan(of, word, if_missing);
      };
      forward_ = plan(layer.requests.forward, &KernelAlgorithms::forward);
      backward_data_ = plan(layer.requests.backward_data, &KernelAlgorithms::backward_data);
      backward_weights_ = plan(layer.requests.backward_weights, &KernelAlgorithms::backward_weights);
    }
    set(std::move(traits));
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    if (!forward_) return "nothing";
    return pass == Pass::backward ? backward_data_->get().word + " " + backward_weights_->get().word
                                  : forward_->get().word;
  }
  /// The gradient of the weights, the extended input, the sums of statistics, and behind them what a plan or the sum of
  /// a bias's gradient needs.
  [[nodiscard]] Bytes workspace() const override {
    if (!forward_) return {};
    if (sums_in_epilogue() && !infer_) {
      ConvolutionRequest product = layer_.requests.forward;
      product.statistics = false;
      infer_ = convolutions_.plan(product, "");
    }
    std::int64_t most = layer_.has_bias ? sum_channels_workspace(layer_.output).value : 0;
    for (const auto& pending : {forward_, infer_, backward_data_, backward_weights_})
      if (pending) most = std::max(most, pending->get().plan->workspace().value);
    return {rest() + most};
  }
  [[nodiscard]] const Packing& packing(int parameter) const override {
    return parameter == 0 ? layer_.weights : layer_.bias.value();
  }

 private:
  [[nodiscard]] DType weight_gradient_type() const { return backward_weights_->get().request.result; }
  [[nodiscard]] Bytes weight_gradient() const {
    Packing packing = layer_.weights;
    packing.dtype = weight_gradient_type();
    return packing.bytes();
  }
  [[nodiscard]] std::int64_t extended() const { return aligned(weight_gradient().value); }
  [[nodiscard]] std::int64_t sums() const { return extended() + (extended_ ? aligned(extended_->bytes.value) : 0); }
  [[nodiscard]] std::int64_t rest() const { return sums() + (sums_in_epilogue() ? 2 * bytes_of_sums() : 0); }
  [[nodiscard]] std::int64_t bytes_of_sums() const {
    return aligned(layer_.output.shape.channels * static_cast<std::int64_t>(sizeof(float)));
  }
  [[nodiscard]] bool sums_in_epilogue() const {
    return layer_.requests.forward.statistics && forward_ && forward_->get().plan->applies_epilogue();
  }

  /// The tensors of the library's convolution, whose x is the output of a transposed one.
  [[nodiscard]] ConvolutionTensors tensors(const Arguments& call, const void* input, const void* output) const {
    ConvolutionTensors tensors{.x = const_cast<void*>(layer_.requests.transposed ? output : input),
                               .w = const_cast<void*>(call.parameters[0]),
                               .y = const_cast<void*>(layer_.requests.transposed ? input : output)};
    tensors.workspace = static_cast<std::byte*>(call.workspace) + rest();
    if (extended_) tensors.y = static_cast<std::byte*>(call.workspace) + extended();
    return tensors;
  }

  void infer(const Arguments& call) override { run_forward(infer_ ? infer_ : forward_, call); }

  void forward(const Arguments& call) override {
    const ConvolutionTensors all = run_forward(forward_, call);
    if (layer_.has_statistics) write_statistics(layer_.output, call.output, all.sums, all.shift, call.part, call.queue);
  }

  ConvolutionTensors run_forward(const std::shared_ptr<const PendingPlan>& pending, const Arguments& call) {
    if (!pending) return {};
    const ConvolutionPlan& plan = *pending->get().plan;
    ConvolutionTensors all = tensors(call, call.inputs[0], call.output);
    if (layer_.has_bias) all.bias = call.parameters[1];
    if (pending == forward_ && sums_in_epilogue()) {
      auto* const first = static_cast<std::byte*>(call.workspace) + sums();
      all.shift = static_cast<const float*>(call.state[0]);
      all.sums = {reinterpret_cast<float*>(first), reinterpret_cast<float*>(first + bytes_of_sums())};
    }
    if (extended_) copy(extend_, call.inputs[0], all.y, call.queue);
    plan.run(all, call.queue);
    if (layer_.requests.transposed || !plan.applies_epilogue()) add_epilogue(call, all);
    return all;
  }

  void add_epilogue(const Arguments& call, const ConvolutionTensors& all) const {
    if (layer_.has_bias || layer_.activation != Activation::none)
      add_bias(layer_.output, call.output, all.bias, layer_.activation, call.queue);
  }

  void backward(const Arguments& call) override {
    if (!call.parameter_gradients.empty()) backward_parameters(call);
    if (forward_ && call.input_gradients[0] != nullptr) backward_input(call);
  }

  void backward_parameters(const Arguments& call) {
    if (layer_.activation != Activation::none && forward_)
      activation_backward(layer_.output, call.output, call.output_gradient, layer_.activation, call.queue);
    ConvolutionTensors all = tensors(call, call.inputs[0], call.output_gradient);
    if (layer_.has_bias)
      sum_channels(layer_.output, call.output_gradient, call.parameter_gradients[1], all.workspace, call.queue);
    if (!forward_) return zero(call.parameter_gradients[0], call.queue);
    all.w = call.workspace;
    if (extended_) copy(extend_, call.inputs[0], all.y, call.queue);
    backward_weights_->get().plan->run(all, call.queue);
    unpack_gradient(layer_.weights, call.workspace, weight_gradient_type(), call.parameter_gradients[0], call.queue);
  }

  void backward_input(const Arguments& call) const {
    const ConvolutionTensors all = tensors(call, call.input_gradients[0], call.output_gradient);
    backward_data_->get().plan->run(all, call.queue);
    if (extended_) copy(crop_, all.y, call.input_gradients[0], call.queue);
  }

  static void copy(const Submit& submit, const void* from, void* to, Queue queue) {
    submit({.inputs = std::span(&from, 1), .output = to, .queue = queue});
  }

  void zero(void* weights, Queue queue) const {
    clear_bytes(weights, {layer_.weights.out * layer_.weights.in * layer_.weights.window * size_of(DType::float32)},
                queue);
  }

  ConvolutionLayer layer_;
  std::optional<Format> extended_;  // the input of a transposed convolution with the zeros that the requests have
  Submit extend_;
  Submit crop_;
  Convolutions& convolutions_;
  std::shared_ptr<const PendingPlan> forward_;
  mutable std::shared_ptr<const PendingPlan> infer_;  // instead of `forward_` if that gives statistics
  std::shared_ptr<const PendingPlan> backward_data_;
  std::shared_ptr<const PendingPlan> backward_weights_;
};

}  // namespace

std::optional<ConvolutionLayer> convolution_layer(const Operator& op, const Format& in, DType dtype, bool tf32) {
  std::optional<ConvolutionLayer> layer;
  if (const auto* convolution = std::get_if<Convolution>(&op); convolution != nullptr) {
    layer = layer_of(*convolution, in, dtype, tf32);
    layer->weights = packing_of(layer->requests.forward, convolution->out_channels,
                                in.shape.channels / convolution->groups, convolution->groups);
    layer->has_bias = convolution->bias;
    layer->has_statistics = convolution->statistics;
  } else if (const auto* transposed = std::get_if<TransposedConvolution>(&op); transposed != nullptr) {
    layer = layer_of(*transposed, in, dtype, tf32);
    layer->weights = packing_of(layer->requests.forward, in.shape.channels,
                                transposed->out_channels / transposed->groups, transposed->groups);
    layer->has_bias = transposed->bias;
  } else if (const auto* linear = std::get_if<Linear>(&op); linear != nullptr) {
    layer = layer_of(*linear, in, dtype, tf32);
    layer->weights = packing_of(layer->requests.forward, linear->out_features, in.shape.channels, 1);
    layer->weights.window = in.shape.height * in.shape.width;
    layer->weights.packed_in = padded_channels(in.shape.channels, dtype);
    layer->has_bias = true;
  }
  if (layer && layer->has_bias) {
    const std::int64_t channels = layer->output.shape.channels;
    layer->bias = bias_packing(channels, padded_channels(channels, dtype));
  }
  return layer;
}

std::vector<KernelAlgorithms> candidates(const ConvolutionLayer& layer, Convolutions& convolutions,
                                         const std::string& library) {
  if (layer.input.shape.batch == 0) return {};
  const std::vector<std::string> forward = convolutions.candidates(layer.requests.forward);
  const std::vector<std::string> data = convolutions.candidates(layer.requests.backward_data);
  std::vector<std::string> weights = convolutions.candidates(layer.requests.backward_weights);
  if (forward.empty() || data.empty() || weights.empty()) return {};
  ConvolutionRequest in_float32 = layer.requests.backward_weights;
  in_float32.result = DType::float32;
  if (in_float32 != layer.requests.backward_weights)
    for (const std::string& word : convolutions.candidates(in_float32))
      weights.push_back(std::string(float32_prefix) + word);
  std::vector<KernelAlgorithms> all{{library, forward.front(), data.front(), weights.front()}};
  const auto add = [&](const std::vector<std::string>& words, std::string KernelAlgorithms::*pass) {
    for (std::size_t i = 1; i < words.size(); ++i) {
      all.push_back(all.front());
      all.back().*pass = words[i];
    }
  };
  add(forward, &KernelAlgorithms::forward);
  add(data, &KernelAlgorithms::backward_data);
  add(weights, &KernelAlgorithms::backward_weights);
  return all.size() > 1 ? all : std::vector<KernelAlgorithms>{};
}

std::unique_ptr<ConvolutionKernel> make_convolution(const ConvolutionLayer& layer, Convolutions& convolutions,
                                                    const KernelAlgorithms* chosen, IfMissing if_missing) {
  return std::make_unique<LayerKernel>(layer, convolutions, chosen, if_missing);
}

}  // namespace lockstep::ops::cuda
