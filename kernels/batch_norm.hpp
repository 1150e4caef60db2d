// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/convert.hpp"

/// Batch norm over activations as they lie in memory. oneDNN 2.6.3's own adds up each channel (65536 values in
/// ResNet-20's first layers) in float32. These sum in double, as PyTorch does: against float64, the gradients of
/// ResNet-20's last block are then off by 3e-6 instead of 5e-5, and fewer ReLUs further back see the wrong sign, each
/// of which costs about 1e-3. For the same reason `normalize` computes in double: its own error is 2.5e-8 relative L2,
/// one rounding, instead of 5.6e-8 (PyTorch 4.8e-8). That makes ResNet-20's activations more exact than PyTorch's, by
/// 2 %, for 0.3 % of a step's time; the convolutions, which have PyTorch's error of 1.6e-7, contribute the rest.
///
/// Elements are float, or bfloat16, which is widened when it is read and rounded when it is stored.
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

/// Some images' and some groups' elements of a tensor.
struct TensorPart {
  std::int64_t first_image;
  std::int64_t end_image;
  std::int64_t first_group;
  std::int64_t end_group;
};
inline TensorPart whole(const ChannelLayout& layout) { return {0, layout.images, 0, layout.groups}; }

/// What happens to the result: nothing, what is negative becomes 0, and what is above 6 becomes 6.
enum class Clip { none, relu, relu6 };

/// Per channel, fill-up included.
struct ForwardCoefficients {
  const double* scale;
  const double* shift;
  Clip clip;
};
struct BackwardCoefficients {
  const float* mean;
  const float* scale;  ///< of the output's gradient
  const float* slope;  ///< of x − mean
  const float* intercept;
};
/// What the gradient behind a ReLU or ReLU6 is masked by: it passes where the output is above 0, and below 6.
template <typename T>
struct Mask {
  const T* output = nullptr;         ///< the result; or, where that is null,
  const float* direction = nullptr;  ///< of x, by `Threshold`s of each channel; null: no mask
  const float* from = nullptr;       ///< where the result is above 0
  const float* to = nullptr;         ///< and where it is 6 or more, of a ReLU6
  bool six = false;                  ///< whether it is one
};

/// A gradient g = mask(dy + second).
template <typename T>
struct OutputGradient {
  const T* dy;
  const T* second = nullptr;  ///< null: nothing
  /// Where g is left if there is a second, or an output that masks; it may be `dy`. Otherwise it is not used. The sum
  /// is rounded as it is stored, before it is used.
  T* g = nullptr;
  Mask<T> mask = {};
};

/// Where what goes into a ReLU is above a level, or at least there, as `normalize` rounds it: where direction·x ≥ from.
/// Each of its steps is monotonic, so that there is such a place.
struct Threshold {
  float direction;
  float from;  ///< NaN: nowhere
};
Threshold threshold_of(double scale, double shift);      ///< above 0
Threshold threshold_of_six(double scale, double shift);  ///< at least 6

// All work on part of the tensors, and of the arrays that have a value for each channel.

/// sum = Σ x and squares = Σ x² of each channel, overwritten.
void sum_channels(const ChannelLayout& layout, const TensorPart& part, const float* x, double* sum, double* squares);
void sum_channels(const ChannelLayout& layout, const TensorPart& part, const bfloat16* x, double* sum, double* squares);

/// y = clip(x·scale + shift, rounded, + residual), whose residual may be null: nothing. `y` may be `x` or `residual`.
void normalize(const ChannelLayout& layout, const TensorPart& part, const ForwardCoefficients& coefficients,
               const float* x, const float* residual, float* y);
void normalize(const ChannelLayout& layout, const TensorPart& part, const ForwardCoefficients& coefficients,
               const bfloat16* x, const bfloat16* residual, bfloat16* y);

/// sum = Σ g and products = Σ g·(x − mean) of each channel, overwritten.
void sum_gradients(const ChannelLayout& layout, const TensorPart& part, const float* mean, const float* x,
                   const OutputGradient<float>& gradient, double* sum, double* products);
void sum_gradients(const ChannelLayout& layout, const TensorPart& part, const float* mean, const bfloat16* x,
                   const OutputGradient<bfloat16>& gradient, double* sum, double* products);

/// dx = scale·g − slope·(x − mean) − intercept with g = mask(dy), by x if at all. `dx` may be `dy`.
void backward_input(const ChannelLayout& layout, const TensorPart& part, const BackwardCoefficients& coefficients,
                    const Mask<float>& mask, const float* x, const float* dy, float* dx);
void backward_input(const ChannelLayout& layout, const TensorPart& part, const BackwardCoefficients& coefficients,
                    const Mask<bfloat16>& mask, const bfloat16* x, const bfloat16* dy, bfloat16* dx);

}  // namespace lockstep::kernels
