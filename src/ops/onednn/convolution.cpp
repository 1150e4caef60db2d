// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/reference.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/windowed.hpp"
namespace lockstep::ops::onednn {
namespace {

using Windowed =
    WindowedKernel<dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights>;

/// The rule between direct and Winograd for operators without measurements; all ranks follow it alike. oneDNN 2.6.3 on
/// one AMD Zen 5 core, 3×3, batch 64, µs forward / backward data / backward weights:
///
///                     Winograd               direct
///   1 → 32, 28×28     1108 / 1204 /  940      171 / 1693 /  164
///   16 → 16, 32×32    1608 / 1565 / 1532     1514 / 1185 / 1211
///   32 → 64, 14×14    1062 / 1368 / 1745     1718 / 1697 / 1745
///   32 → 32, 16×16     757 /  750 /  969     1113 / 1097 / 1140
///   64 → 64, 8×8       570 /  558 /  827     1083 / 1072 / 1195
///
/// On one Xeon core (Emerald Rapids), µs forward / both backward:
///
///   32 → 32, 16×16    1260 / 2430                    1530 / 3220
///   64 → 64, 8×8       960 / 1850                    1460 / 3130
///
/// Winograd's results are 3.5 (32 channels) to 4.5 (64 channels) times as far from the exact ones: 6.8e-7 relative L2
/// against 1.5e-7. With Winograd in all passes, ResNet-20's gradients are off by 1.4e-6 (median over tensors) and
/// LeNet's by 3.4e-7. PyTorch's float32 gradients are off by 9.0e-7 and 2.5e-7; no tensor's error exceeds 2.4 times
/// PyTorch's. Without Winograd the errors are 7.6e-7 and 2.4e-7. `convolution_auto` selects it from batches of 16 on,
/// but also for a single input channel. With either algorithm, an image's result does not depend on its batch.
Algorithms by_rule(const Format& in, const Convolution& shape, bool exact) {
  const bool faster = in.shape.channels >= 32 && shape.out_channels >= 32 && shape.kernel == 3 && shape.stride == 1 &&
                      shape.dilation == 1 && shape.groups == 1;
  const auto each = faster && !exact ? dnnl::algorithm::convolution_auto : dnnl::algorithm::convolution_direct;
  return {each, each, each};
}

Algorithms by_choice(const KernelAlgorithms& chosen) {
  const auto asked = [](const std::string& algorithm) {
    return algorithm == winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
  };
  return {asked(chosen.forward), asked(chosen.backward_data), asked(chosen.backward_weights)};
}

/// Returns what follows from an operator for the kernel of any algorithm.
/// @param plain, grouped  the layouts of lockstep's weights without and with groups
template <typename Kind>
WindowedOptions options_of(const Kind& shape, const Format& in, Tag plain, Tag grouped) {
  return {.out = shape.signature(std::span(&in.shape, 1)).output,
          .passed_over = faulty_kernels(shape.stride, shape.groups, in.shape.channels, shape.out_channels),
          .stride = dims_of(shape.stride),
          .dilation = {shape.dilation.height - 1, shape.dilation.width - 1},
          .padding = dims_of(shape.padding),
          .end_padding = dims_of(shape.padding),
          .weights = weight_dims(shape.groups, shape.out_channels, in.shape.channels, shape.kernel),
          .plain_weights = shape.groups == 1 ? plain : grouped,
          .bias = shape.bias,
          .relu = shape.activation == Activation::relu};
}

std::unique_ptr<Windowed> make_by(const Algorithms& wanted, const Convolution& shape, const ContextPtr& context,
                                  const Format& in) {
  WindowedOptions options = options_of(shape, in, Tag::oihw, Tag::goihw);
  options.algorithms = wanted;
  return std::make_unique<Windowed>(context, in, std::move(options));
}

/// Returns null if oneDNN has no kernel.
std::unique_ptr<Windowed> try_by(const KernelAlgorithms& chosen, const Convolution& shape, const ContextPtr& context,
                                 const Format& in) {
  try {
    return make_by(by_choice(chosen), shape, context, in);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

/// Returns the algorithms that the kernel actually uses.
KernelAlgorithms algorithms_of(const Windowed& kernel) {
  const auto of = [](const std::string& name) {
    return std::string(name.find("wino") == std::string::npos ? direct : winograd);
  };
  const auto names = kernel.kernels();
  return {"onednn", of(names[0]), of(names[1]), of(names[2])};
}

/// Returns whether the kernels have the same input and output formats.
bool has_same_formats(const Traits& one, const Traits& other) {
  return to_desc(one.inputs[0]) == to_desc(other.inputs[0]) && to_desc(one.output) == to_desc(other.output);
}

/// Makes oneDNN's deconvolution. Its weights are out × in, or groups × out × in, so PyTorch's are transposed. Its end
/// padding is reduced by the output padding and can be negative. oneDNN 2.6.3 adds the bias to one element at a time,
/// in four fifths of the time of a forward pass to 16 channels, so `AddBias` does it where it can.
KernelPtr make_deconvolution(const TransposedConvolution& shape, const ContextPtr& context, const Format& in) {
  using Deconvolution = WindowedKernel<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
                                       dnnl::deconvolution_backward_weights>;
  WindowedOptions options = options_of(shape, in, Tag::iohw, Tag::giohw);
  constexpr auto direct_sums = dnnl::algorithm::deconvolution_direct;
  options.algorithms = {direct_sums, direct_sums, direct_sums};
  options.end_padding = {shape.padding.height - shape.output_padding.height,
                         shape.padding.width - shape.output_padding.width};
  options.bias_apart = in.dtype == DType::float32;  // otherwise both sums would be rounded to bfloat16
  return std::make_unique<Deconvolution>(context, in, std::move(options));
}

}  // namespace

KernelPtr make(const Convolution& shape, const ContextPtr& context, Formats in) {
  if (in[0].dtype != DType::float32) return make_by(by_choice({}), shape, context, in[0]);  // direct only
  if (KernelPtr kernel = make_depthwise(shape, context, in[0])) return kernel;
  const KernelAlgorithms* chosen = context->choices.find(key_of(shape, in), in[0].shape.batch);
  if (chosen == nullptr) return make_by(by_rule(in[0], shape, context->exact), shape, context, in[0]);
  auto kernel = try_by(*chosen, shape, context, in[0]);
  if (kernel != nullptr) return kernel;
  throw Error(ErrorCode::unsupported, "oneDNN cannot compute the " + key_of(shape, in) +
                                          ", by the algorithms that were chosen for it; leave the choices out");
}

std::vector<KernelAlgorithms> candidates(const Convolution& shape, const ContextPtr& context, Formats in) {
  if (context->exact) return {};
  const auto usual = make_by(by_rule(in[0], shape, false), shape, context, in[0]);
  const KernelAlgorithms rule = algorithms_of(*usual);
  std::vector<KernelAlgorithms> found{rule};
  for (std::string KernelAlgorithms::*pass :
       {&KernelAlgorithms::forward, &KernelAlgorithms::backward_data, &KernelAlgorithms::backward_weights}) {
    KernelAlgorithms other = rule;
    other.*pass = rule.*pass == direct ? winograd : direct;
    const auto kernel = try_by(other, shape, context, in[0]);
    if (kernel != nullptr && algorithms_of(*kernel) == other && has_same_formats(kernel->traits(), usual->traits()))
      found.push_back(other);
  }
  return found.size() > 1 ? found : std::vector<KernelAlgorithms>{};
}

bool has_winograd(const ContextPtr& context) {
  const std::string all(winograd);
  const Format in = Format::plain({1, 32, 16, 16}, DType::float32);
  return try_by({"onednn", all, all, all}, Convolution{.out_channels = 32, .padding = 1}, context, in) != nullptr;
}

KernelPtr make(const TransposedConvolution& shape, const ContextPtr& context, Formats in) {
  // oneDNN supports only an output padding smaller than the stride, whatever the dilation.
  const bool adds_more =
      shape.output_padding.height >= shape.stride.height || shape.output_padding.width >= shape.stride.width;
  return adds_more ? make_reference_ops()->make(shape, in) : make_deconvolution(shape, context, in[0]);
}

}  // namespace lockstep::ops::onednn
