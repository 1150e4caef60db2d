// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Depthwise convolutions of activations in blocks of channels: images × groups × height × width × lanes, where
/// channel = group·lanes + lane. Each channel has a window of weights of its own.
namespace lockstep::kernels {

struct DepthwiseExtents {
  std::int64_t images;
  std::int64_t groups;
  std::int64_t lanes;  ///< 8 or 16
  std::int64_t height;
  std::int64_t width;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t kernel;  ///< height and width of the window, 3 or 5
  std::int64_t stride_height;
  std::int64_t stride_width;
  std::int64_t padding_height;
  std::int64_t padding_width;
};

/// Whether `depthwise_weight_gradient` takes blocks of so many channels and windows of this side.
constexpr bool has_depthwise_weight_gradient(std::int64_t lanes, std::int64_t kernel) {
  return (lanes == 8 || lanes == 16) && (kernel == 3 || kernel == 5);
}

/// Computes the gradient of the weights of the channels of a range of groups: channels × kernel × kernel, overwritten.
/// The products of an image are added up first, and then the images. No sum depends on the range.
/// @param gradient  of all channels  @cost 2·kernel² operations for each element of the result
void depthwise_weight_gradient(const float* x, const float* d_out, const DepthwiseExtents& extents,
                               std::int64_t first_group, std::int64_t end_group, float* gradient);

}  // namespace lockstep::kernels
