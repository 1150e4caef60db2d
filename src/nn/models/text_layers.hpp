// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "nn/models/blocks.hpp"

/// What networks that read lines of text have in common: columns as the steps of a sequence, and CTC loss whose blank
/// is class 0, so that the targets are 1 to `classes`. All steps count, those of padded columns too.
namespace lockstep::nn::models {

/// Adds "sequence": the channels and rows of a column of the last value become the features of its step.
int add_sequence(Graph& graph);

/// Adds a linear layer at each step: a 1×1 convolution.
int add_linear_at_steps(Graph& graph, const std::string& name, std::int64_t features);

/// Ends a network: adds the layer that scores the blank and the classes at each step, the output "logits", which
/// exported models have as steps × classes, and the loss against "targets", the text, and "target_lengths", its length.
/// A text that is too long for the steps has no loss.
void read_text(Graph& graph, const DataSpec& data, const std::string& layer);

/// Small data for such a network with images of this extent.
DataSpec text_example(const std::array<std::int64_t, 3>& images);

}  // namespace lockstep::nn::models
