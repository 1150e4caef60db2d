// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/models.hpp"

/// What models of images with other targets than one label are made of.
namespace lockstep::nn::models {

/// @throws Error{invalid_argument} unless "images" have a multiple of so many rows, and of so many columns
inline void require_multiple(const DataSpec& data, const std::string& model, std::int64_t rows, std::int64_t columns) {
  const auto& [channels, height, width] = data.at("images").extent;
  if (height % rows == 0 && width % columns == 0) return;
  const auto text = [](std::int64_t a, std::int64_t b) { return std::to_string(a) + "×" + std::to_string(b); };
  throw Error(ErrorCode::invalid_argument, "model '" + model + "' needs images of a multiple of " +
                                               text(rows, columns) + " pixels, not " + text(height, width));
}

/// "<name>.<first>" and so on: a 3×3 convolution that keeps height and width, or halves them with stride 2, batch norm
/// and ReLU. @return the value that they give
inline int add_conv_block(Graph& graph, const std::string& name, int first, std::int64_t channels,
                          std::int64_t stride = 1) {
  const auto number = [&](int i) { return name + "." + std::to_string(first + i); };
  graph.add(number(0), Convolution{.out_channels = channels, .stride = stride, .padding = 1, .bias = false});
  graph.add(number(1), BatchNorm{});
  return graph.add(number(2), Relu{});
}

/// Two of them, of which the first has the stride.
inline int add_two_blocks(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride = 1) {
  add_conv_block(graph, name, 0, channels, stride);
  return add_conv_block(graph, name, 3, channels);
}

}  // namespace lockstep::nn::models
