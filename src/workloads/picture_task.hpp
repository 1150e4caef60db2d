// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/nn/graph.hpp"
#include "lockstep/trainer/workload.hpp"
#include "vision/picture_defaults.hpp"
#include "vision/transforms/pipeline.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// What a workload does with users' pictures.
struct PictureTask {
  /// Returns why a source does not fit, "its pictures have …"; empty if it does.
  std::string (*why_not)(const vision::Source& source);
  /// Returns the size of the network's input where the user does not say it.
  vision::InputSize (*default_input)(const vision::Source& source);
  /// Returns the transforms. @param augment  what the user says about those of training; empty: nothing
  /// @param are_equal  whether all pictures have the size of the input
  /// @throws Error{invalid_argument} as vision::parse_transforms
  vision::Pipelines (*pipelines)(std::string_view augment, const vision::Size& input, bool are_equal);
  /// Returns the training transforms for steps of another size than the input. @throws as `pipelines`
  vision::StepSize (*step)(std::string_view augment, const vision::Size& size, bool are_equal);
  /// Returns what reads the findings of a model; empty if the model has no output for them.
  Find (*find)(const nn::Graph& graph, std::int64_t classes);
  /// Makes the metrics of evaluations that read the annotations of a source; null: the workload's, which read tensors.
  /// @throws Error{invalid_argument} for a model that they cannot evaluate
  trainer::Workload::Metrics (*metrics)(const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
                                        std::shared_ptr<const vision::Source> source) = nullptr;
};

}  // namespace lockstep::workloads
