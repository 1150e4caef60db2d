// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/operators.hpp"
#include "ops/onednn/windowed.hpp"

namespace lockstep::ops::onednn {

namespace {

/// Direct or Winograd, by a rule that all ranks follow alike; measuring at start could make them differ. oneDNN 2.6.3
/// on one AMD Zen 5 core, 3×3, batch 64, µs forward / backward data / backward weights:
///
///                     Winograd               direct
///   1 → 32, 28×28     1108 / 1204 /  940      171 / 1693 /  164
///   16 → 16, 32×32    1608 / 1565 / 1532     1514 / 1185 / 1211
///   32 → 64, 14×14    1062 / 1368 / 1745     1718 / 1697 / 1745
///   32 → 32, 16×16     757 /  750 /  969     1113 / 1097 / 1140
///   64 → 64, 8×8       570 /  558 /  827     1083 / 1072 / 1195
///
/// and on one Xeon core (Emerald Rapids), forward / both backward:
///
///   32 → 32, 16×16    1260 / 2430                    1530 / 3220
///   64 → 64, 8×8       960 / 1850                    1460 / 3130
///
/// Winograd's results are 3.5 (32 channels) to 4.5 (64) times as far from the exact ones, 6.8e-7 relative L2 against
/// 1.5e-7. With it in all passes ResNet-20's gradients are off by 1.4e-6 (median over tensors), LeNet's by 3.4e-7,
/// where PyTorch's float32 is off by 9.0e-7 and 2.5e-7; no tensor's by more than 2.4 times PyTorch's. Without it that
/// is 7.6e-7 and 2.4e-7. `convolution_auto` takes it where batches are large enough, but for one input channel too. An
/// image's result does not depend on the batch it is in, with either.
dnnl::algorithm choose_algorithm(const Format& in, const Convolution& shape, bool exact) {
  const bool faster = in.shape.channels >= 32 && shape.out_channels >= 32 && shape.kernel == 3 && shape.stride == 1 &&
                      shape.dilation == 1 && shape.groups == 1;
  return faster && !exact ? dnnl::algorithm::convolution_auto : dnnl::algorithm::convolution_direct;
}

}  // namespace

std::unique_ptr<Kernel> make(const Convolution& shape, const ContextPtr& context, std::span<const Format> in) {
  using Windowed =
      WindowedKernel<dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights>;
  const std::int64_t in_channels = in[0].shape.channels;
  return std::make_unique<Windowed>(
      context, in[0],
      WindowedOptions{.out = shape.signature(std::span(&in[0].shape, 1)).output,
                      .algorithm = choose_algorithm(in[0], shape, context->exact),
                      .algorithm_weights = choose_algorithm(in[0], shape, context->exact),
                      .passed_over = faulty_kernels(shape.stride, shape.groups, in_channels, shape.out_channels),
                      .stride = dims_of(shape.stride),
                      .dilation = {shape.dilation.height - 1, shape.dilation.width - 1},
                      .padding = dims_of(shape.padding),
                      .end_padding = dims_of(shape.padding),
                      .weights = weight_dims(shape.groups, shape.out_channels, in_channels, shape.kernel),
                      .plain_weights = shape.groups == 1 ? Tag::oihw : Tag::goihw,
                      .bias = shape.bias,
                      .relu = shape.activation == Activation::relu});
}

}  // namespace lockstep::ops::onednn
