// SPDX-License-Identifier: Apache-2.0
#include "apps/train/graph_for_data.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "apps/common/run_app.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::train {
namespace {

/// @throws Error that says what the model lacks in the data
nn::Graph made(std::string_view model, const nn::Models& models, const nn::DataSpec& data) {
  nn::Graph graph = models.make(model, data);
  graph.check();
  for (const TensorSpec& input : graph.inputs()) {
    if (data.at(input.name) == input) continue;
    throw Error(ErrorCode::invalid_argument,
                "the data's '" + input.name + "' is not of the shape that the model takes");
  }
  return graph;
}

bool can_take(std::string_view model, const nn::Models& models, const nn::DataSpec& data) {
  try {
    (void)made(model, models, data);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Joins words as "a, b or c".
std::string alternatives(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

/// @throws UsageError
nn::Graph model_for_data(const Options& options, const nn::Models& models, const nn::DataSpec& data) {
  try {
    return made(options.model, models, data);
  } catch (const Error& error) {
    std::vector<std::string_view> others = models.names();
    std::erase_if(others, [&](std::string_view model) { return !can_take(model, models, data); });
    throw UsageError(
        "--model " + options.model + " cannot be trained on --dataset " + options.dataset +
        (others.empty() ? ", and no other model of this program can" : "; use --model " + alternatives(others)) + " (" +
        error.message() + ")");
  }
}

}  // namespace

nn::Graph graph_for_data(const Options& options, const nn::Models& models, const nn::DataSpec& data) {
  nn::Graph graph = model_for_data(options, models, data);
  for (const GraphEdit& edit : options.graph_edits) {
    try {
      graph = edit.apply(graph);
    } catch (const Error& error) {
      throw UsageError(edit.option + ": " + error.message());
    }
  }
  return graph;
}

}  // namespace lockstep::train
