// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/convert.hpp"

/// Batch norm over activations in the memory format that they have. oneDNN 2.6.3 adds up each channel (65,536 values in
/// ResNet-20's first layers) in float32. These kernels sum in double, as PyTorch does. Against float64, the gradients
/// of ResNet-20's last block are then off by 3e-6 instead of 5e-5, and fewer ReLUs further back see the wrong sign,
/// each of which costs about 1e-3. For the same reason `normalize` computes in double: its own error is 2.5e-8 relative
/// L2, one rounding, instead of 5.6e-8 (PyTorch 4.8e-8). ResNet-20's activations are then more exact than PyTorch's by
/// 2 %, for 0.3 % of a step's time. The convolutions, which have PyTorch's error of 1.6e-7, contribute the rest.
///
/// Elements are float or bfloat16. A bfloat16 is widened when it is read and rounded when it is stored.
namespace lockstep::kernels {

/// The shape is images × groups × positions × lanes, where channel = group·lanes + lane: NCHW has one lane, NHWC has
/// one group, and a blocked format has 8 or 16 lanes. The padding channels that fill up the last block are zero in
/// every tensor and stay zero.
struct ChannelLayout {
  std::int64_t images;
  std::int64_t groups;
  std::int64_t positions;
  std::int64_t lanes;

  [[nodiscard]] std::int64_t channels() const { return groups * lanes; }
};

/// A part of a tensor: the elements of a range of images and a range of groups.
struct TensorPart {
  std::int64_t first_image;
  std::int64_t end_image;
  std::int64_t first_group;
  std::int64_t end_group;
};
inline TensorPart whole(const ChannelLayout& layout) { return {0, layout.images, 0, layout.groups}; }

/// The activation that is applied to the result: none, ReLU, or ReLU6.
enum class Clip { none, relu, relu6 };

/// Arrays with one value for each channel, padding included.
struct ForwardCoefficients {
  const double* scale;
  const double* shift;
  Clip clip;
};
struct BackwardCoefficients {
  const float* mean;
  const float* scale;  ///< factor of the output's gradient
  const float* slope;  ///< factor of x − mean
  const float* intercept;
};
/// The mask of a ReLU's or ReLU6's gradient, which passes where the output is above 0 and, for a ReLU6, below 6.
template <typename T>
struct Mask {
  const T* output = nullptr;         ///< the result; if null, `direction` decides
  const float* direction = nullptr;  ///< the direction of each channel's `Threshold` for x; null: no mask
  const float* from = nullptr;       ///< the `Threshold` at which the result is above 0
  const float* to = nullptr;         ///< the `Threshold` at which a ReLU6's result is 6 or more
  bool six = false;                  ///< whether it is a ReLU6
};

/// A gradient g = mask(dy + second).
template <typename T>
struct OutputGradient {
  const T* dy;
  const T* second = nullptr;  ///< null: nothing
  /// Receives g if there is a second gradient or if an output masks; otherwise it is not used. It may be `dy`. The sum
  /// is rounded to T before it is used, because it is stored so.
  T* g = nullptr;
  Mask<T> mask = {};
};

/// The inputs for which the result of `normalize`, rounding included, reaches a level: those with direction·x ≥ from.
/// Such a threshold exists because every step of `normalize` is monotonic.
struct Threshold {
  float direction;
  float from;  ///< NaN: no input reaches the level
};
Threshold threshold_of(double scale, double shift);      ///< level: above 0
Threshold threshold_of_six(double scale, double shift);  ///< level: at least 6

// All functions work on part of the tensors, and on the same part of the arrays that have a value for each channel.

/// sum = Σ x and squares = Σ x² of each channel, overwritten.
void sum_channels(const ChannelLayout& layout, const TensorPart& part, const float* x, double* sum, double* squares);
void sum_channels(const ChannelLayout& layout, const TensorPart& part, const bfloat16* x, double* sum, double* squares);

/// y = clip(x·scale + shift, rounded, + residual); nothing is added if `residual` is null. `y` may be `x` or
/// `residual`.
void normalize(const ChannelLayout& layout, const TensorPart& part, const ForwardCoefficients& coefficients,
               const float* x, const float* residual, float* y);
void normalize(const ChannelLayout& layout, const TensorPart& part, const ForwardCoefficients& coefficients,
               const bfloat16* x, const bfloat16* residual, bfloat16* y);

/// sum = Σ g and products = Σ g·(x − mean) of each channel, overwritten.
void sum_gradients(const ChannelLayout& layout, const TensorPart& part, const float* mean, const float* x,
                   const OutputGradient<float>& gradient, double* sum, double* products);
void sum_gradients(const ChannelLayout& layout, const TensorPart& part, const float* mean, const bfloat16* x,
                   const OutputGradient<bfloat16>& gradient, double* sum, double* products);

/// dx = scale·g − slope·(x − mean) − intercept with g = mask(dy). Only a mask by x is applied. `dx` may be `dy`.
void backward_input(const ChannelLayout& layout, const TensorPart& part, const BackwardCoefficients& coefficients,
                    const Mask<float>& mask, const float* x, const float* dy, float* dx);
void backward_input(const ChannelLayout& layout, const TensorPart& part, const BackwardCoefficients& coefficients,
                    const Mask<bfloat16>& mask, const bfloat16* x, const bfloat16* dy, bfloat16* dx);

}  // namespace lockstep::kernels
