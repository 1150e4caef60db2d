// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/trainer/workload.hpp"
#include "vision/collate.hpp"
#include "vision/picture_defaults.hpp"
#include "vision/transforms/pipeline.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// What a workload does with users' pictures.
struct PictureTask {
  /// Returns why a source does not fit, "its pictures have …"; empty if it does.
  std::string (*why_not)(const vision::Source& source);
  /// Returns the size of the network's input. @param given  by the user; 0×0: the workload chooses
  /// @throws Error{invalid_argument} if its models cannot have the given size
  vision::InputSize (*input)(const vision::Source& source, const vision::Size& given);
  /// Returns the numbers that bytes of the pictures stand for. @param source  the training part
  Normalization (*normalization)(const vision::Source& source, int channels);
  /// Returns the transforms. @param augment  what the user says about those of training; empty: nothing
  /// @param are_equal  whether all pictures have the size of the input
  /// @throws Error{invalid_argument} as vision::parse_transforms
  vision::Pipelines (*pipelines)(std::string_view augment, const vision::Size& input, bool are_equal);
  /// Returns the training transforms for steps of another size than the input. @throws as `pipelines`
  vision::StepSize (*step)(std::string_view augment, const vision::Size& size, bool are_equal);
  /// Returns what writes the targets of the pictures of all parts. @param parts  those that there are
  std::shared_ptr<const vision::Collate> (*collate)(const std::vector<const vision::Source*>& parts);
  /// Returns what writes these tensors of a batch, which a model was made for.
  std::shared_ptr<const vision::Collate> (*collate_of_model)(const std::vector<TensorSpec>& tensors);
  /// The stride of inputs that evaluations may have beside the usual one: pictures are evaluated with inputs of their
  /// ratio (`vision::groups_by_ratio`). 0: all have the usual input.
  int evaluation_stride = 0;
  /// Returns what reads the findings of a model; empty if the model has no output for them.
  Find (*find)(const FoundModel& model, const FindOptions& options);
  /// Makes the metrics of evaluations that read the annotations of a source; null: the workload's, which read tensors.
  /// @throws Error{invalid_argument} for a model that they cannot evaluate
  trainer::Workload::Metrics (*metrics)(const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
                                        std::shared_ptr<const vision::Source> source) = nullptr;
};

}  // namespace lockstep::workloads
