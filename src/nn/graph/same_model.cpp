// SPDX-License-Identifier: Apache-2.0
#include "nn/graph/same_model.hpp"

#include <algorithm>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return '[' + text + ']';
}

/// Returns "images of 32×48" for the first input whose extents are not the same in both graphs.
std::string input_text(const Graph& graph, const Graph& other) {
  for (std::size_t i = 0; i < std::min(graph.inputs().size(), other.inputs().size()); ++i) {
    const auto& [channels, height, width] = graph.inputs()[i].extent;
    if (graph.inputs()[i] != other.inputs()[i])
      return graph.inputs()[i].name + " of " + std::to_string(height) + "×" + std::to_string(width);
  }
  return "these inputs";
}

[[noreturn]] void refuse_model(const Graph& usual, const Graph& other, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "the model '" + usual.name() + "' is another one for " +
                                               input_text(other, usual) + " than for " + input_text(usual, other) +
                                               ": " + what);
}

std::string tensor_text(const std::vector<TensorSlot>& tensors, std::size_t index) {
  if (index >= tensors.size()) return "no further tensor";
  return "'" + tensors[index].name + "' " + shape_text(tensors[index].shape);
}

void require_same_layout(const Graph& usual, const Graph& other, const Layout& first, const Layout& second) {
  const std::vector<TensorSlot>& ours = first.tensors();
  const std::vector<TensorSlot>& theirs = second.tensors();
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i < ours.size() && i < theirs.size() && ours[i].name == theirs[i].name && ours[i].shape == theirs[i].shape)
      continue;
    const std::string name = i < theirs.size() ? theirs[i].name : ours[i].name;
    refuse_model(usual, other,
                 "it has " + tensor_text(theirs, i) + " in place of " + tensor_text(ours, i) + ", so layer '" +
                     name.substr(0, name.rfind('.')) + "' depends on the size of the input");
  }
}

bool is_same_input(TensorSpec first, const TensorSpec& second) {
  first.extent = {first.extent[0], second.extent[1], second.extent[2]};
  return first == second;
}

bool is_same_loss(const LossTerm& first, const LossTerm& second) {
  return first.coefficient == second.coefficient && first.normalizer == second.normalizer &&
         first.auxiliary == second.auxiliary;
}

bool is_same_fill(const ops::OwnedTensor& first, const ops::OwnedTensor& second) {
  return first.value == second.value && first.spread == second.spread && first.added == second.added;
}

}  // namespace

void require_same_model(const Graph& usual, const Graph& other) {
  if (!std::ranges::equal(usual.inputs(), other.inputs(), is_same_input))
    refuse_model(usual, other, "its inputs differ in more than height and width");
  require_same_layout(usual, other, usual.parameters(), other.parameters());
  require_same_layout(usual, other, usual.state(), other.state());
  if (!std::ranges::equal(usual.initial_parameters(), other.initial_parameters(), is_same_fill) ||
      !std::ranges::equal(usual.initial_state(), other.initial_state(), is_same_fill))
    refuse_model(usual, other, "its parameters begin with other values");
  if (usual.constants() != other.constants()) refuse_model(usual, other, "it has other constants");
  if (!std::ranges::equal(usual.losses(), other.losses(), is_same_loss))
    refuse_model(usual, other, "it has other losses");
  if (!std::ranges::equal(usual.outputs(), other.outputs(), {}, &Output::name, &Output::name))
    refuse_model(usual, other, "it has other outputs");
}

}  // namespace lockstep::nn
