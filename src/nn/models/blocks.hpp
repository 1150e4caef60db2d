// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/models.hpp"

/// What several of the models are made of. Names of residual networks are torchvision's.
namespace lockstep::nn::models {

/// Whether "images" are those of small data sets, as of CIFAR: less than 64 pixels high or wide. Networks made for
/// photographs halve their images five times, which leaves little of such; they skip the first halvings then.
[[nodiscard]] bool small_images(const DataSpec& data);

/// A convolution without bias, which the normalization behind it would take away again, and with padding that keeps the
/// extent at stride 1.
[[nodiscard]] Convolution without_bias(std::int64_t out_channels, std::int64_t kernel, std::int64_t stride = 1);

/// "<name>.conv<number>" and "<name>.bn<number>". @return the value that they give
int add_normalized(Graph& graph, const std::string& name, int number, const Convolution& convolution);

/// Ends a residual block: what was made last plus `in`, the block's input, which takes a 1×1 convolution with
/// batch norm ("<name>.downsample") of that stride where the shapes differ; then ReLU.
void add_shortcut(Graph& graph, const std::string& name, int in, std::int64_t stride);

/// A residual block of two 3×3 convolutions.
void add_basic_block(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride);

/// "images" and the beginning of a residual network: a convolution to 64 channels, for `small` ones 3×3, which keeps
/// their extent, else 7×7 of stride 2 and a max pool, which leave a quarter of height and width.
void add_residual_stem(Graph& graph, const DataSpec& data, bool small);

/// "<name>.<first>" and so on: a 3×3 convolution that keeps height and width, or halves them with stride 2, batch norm
/// and ReLU. @return the value that they give
int add_conv_block(Graph& graph, const std::string& name, int first, std::int64_t channels, std::int64_t stride = 1);
/// Two of them, of which the first has the stride.
int add_two_blocks(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride = 1);

/// @throws Error{invalid_argument} unless "images" have a multiple of so many rows, and of so many columns
void require_multiple(const DataSpec& data, const std::string& model, std::int64_t rows, std::int64_t columns);

/// Ends a classifier: the mean of each channel, the linear layer "fc" and the loss.
void add_residual_head(Graph& graph, const DataSpec& data);

}  // namespace lockstep::nn::models
