// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/models.hpp"

/// Blocks that several of the models are made of, and the list of the models. Names in residual networks are
/// torchvision's.
namespace lockstep::nn::models {

/// Returns the models that come with lockstep. A file `some-model.cpp` defines `std::vector<ModelEntry> some_model()`,
/// the models of a family; the build finds it by its name.
std::vector<ModelEntry> bundled();

/// A convolution with padding that keeps the extent at stride 1. It has no bias, because the normalization after it
/// would remove the bias again.
[[nodiscard]] Convolution without_bias(std::int64_t out_channels, std::int64_t kernel, std::int64_t stride = 1);

/// Adds "<name>.conv<number>" and "<name>.bn<number>". @return the index of their output
int add_normalized(Graph& graph, const std::string& name, int number, const Convolution& convolution);

/// Ends a residual block: adds `in`, the block's input, to the last value, then applies ReLU. If the shapes differ,
/// `in` first passes a 1×1 convolution of that stride with batch norm ("<name>.downsample").
void add_shortcut(Graph& graph, const std::string& name, int in, std::int64_t stride);

/// Adds a residual block of two 3×3 convolutions.
void add_basic_block(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride);

/// Adds "images" and the beginning of a residual network with 64 channels. If `small`, it is a 3×3 convolution, which
/// keeps the extent; otherwise it is a 7×7 convolution of stride 2 and a max pool, which reduce height and width to a
/// quarter.
void add_residual_stem(Graph& graph, const DataSpec& data, bool small);

/// Adds "<name>.<first>" and the following: a 3×3 convolution that keeps height and width, or halves them with stride
/// 2, batch norm, and ReLU. @return the index of their output
int add_conv_block(Graph& graph, const std::string& name, int first, std::int64_t channels, std::int64_t stride = 1);
/// Adds two such blocks; the first one has the stride.
int add_two_blocks(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride = 1);

/// @throws Error{invalid_argument} unless the height of "images" is a multiple of `rows` and the width one of `columns`
void require_multiple(const DataSpec& data, const std::string& model, std::int64_t rows, std::int64_t columns);

/// Ends a classifier: adds the mean of each channel, the linear layer "fc" and the loss.
void add_residual_head(Graph& graph, const DataSpec& data);

}  // namespace lockstep::nn::models
