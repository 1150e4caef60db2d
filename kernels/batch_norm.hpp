// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Batch norm over activations as they lie in memory. oneDNN 2.6.3's own adds up each channel (65536 values in
/// ResNet-20's first layers) in float32. These sum in double, as PyTorch does: against float64, the gradients of
/// ResNet-20's last block are then off by 3e-6 instead of 5e-5, and fewer ReLUs further back see the wrong sign, each
/// of which costs about 1e-3. For the same reason `normalise` computes in double: its own error is 2.5e-8 relative L2,
/// one rounding, instead of 5.6e-8 (PyTorch 4.8e-8). That makes ResNet-20's activations more exact than PyTorch's, by
/// 2 %, for 0.3 % of a step's time; the convolutions, which have PyTorch's error of 1.6e-7, contribute the rest.
namespace lockstep::kernels {

/// images × groups × positions × lanes, where channel = group·lanes + lane: NCHW has one lane, NHWC one group, a
/// blocked format 8 or 16 lanes. Channels beyond the last, which fill up a block, are zero in every tensor and stay so.
struct ChannelLayout {
  std::int64_t images;
  std::int64_t groups;
  std::int64_t positions;
  std::int64_t lanes;

  [[nodiscard]] std::int64_t channels() const { return groups * lanes; }
};

/// Per channel, fill-up included.
struct ForwardCoefficients {
  const double* scale;
  const double* shift;
  bool relu;
};
struct BackwardCoefficients {
  const float* mean;
  const float* scale;  ///< of the output's gradient
  const float* slope;  ///< of x − mean
  const float* intercept;
};

/// sum = Σ x and squares = Σ x² of each channel, overwritten.
void sum_channels(const ChannelLayout& layout, const float* x, double* sum, double* squares);

/// y = relu?(x·scale + shift), rounded once.
void normalise(const ChannelLayout& layout, const ForwardCoefficients& coefficients, const float* x, float* y);

/// sum = Σ dy and products = Σ dy·(x − mean) of each channel, overwritten.
void sum_gradients(const ChannelLayout& layout, const float* mean, const float* x, const float* dy, double* sum,
                   double* products);

/// dx = scale·dy − slope·(x − mean) − intercept. `dx` may be `dy`.
void backward_input(const ChannelLayout& layout, const BackwardCoefficients& coefficients, const float* x,
                    const float* dy, float* dx);

}  // namespace lockstep::kernels
