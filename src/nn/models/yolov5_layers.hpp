// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/models/blocks.hpp"

/// Layers of YOLOv5, with its names of tensors.
namespace lockstep::nn::models {

/// Adds "<name>.conv", "<name>.bn" and SiLU. @return the index of their output
int add_conv_silu(Graph& graph, const std::string& name, int in, const Convolution& options);
int add_conv_silu(Graph& graph, const std::string& name, int in, std::int64_t channels, std::int64_t kernel = 1,
                  std::int64_t stride = 1);

/// Adds a cross-stage partial block: bottlenecks on half of the channels, beside the other half.
/// @source Wang et al., "CSPNet", CVPR Workshops 2020
int add_c3(Graph& graph, const std::string& name, int in, std::int64_t channels, int bottlenecks,
           bool has_shortcut = true);

/// Adds pyramid pooling with windows of 5, 9 and 13 pixels, as three max pools of 5 in a row.
/// @source He et al., "Spatial Pyramid Pooling", ECCV 2014
int add_sppf(Graph& graph, const std::string& name, int in, std::int64_t channels);

/// Adds "model.<number>", a map with twice its height and width, and after it the concatenation with another one.
int upsample_and_join(Graph& graph, int number, int in, int with);

}  // namespace lockstep::nn::models
