// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/models/blocks.hpp"

/// The backbone of PaddleOCR's readers of text, with PaddleOCR's names of tensors.
namespace lockstep::nn::models {

/// Adds MobileNetV3-large of half width for lines of text ("backbone.conv1" and so on) behind the last value: the first
/// convolution halves height and width, the blocks only the height, three times. @return its 480 channels
/// @source Howard et al., "Searching for MobileNetV3", ICCV 2019, table 1
int add_mobilenet_v3_for_text(Graph& graph);

}  // namespace lockstep::nn::models
