// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/trainer/workload.hpp"
#include "vision/collate.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/picture_defaults.hpp"
#include "vision/transforms/pipeline.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// The pictures that a model is for, where the user does not say it.
struct UsualInput {
  int channels = 0;
  vision::Size size = {};
};

/// What a workload does with users' pictures.
struct PictureTask {
  /// Returns why a source does not fit, "its pictures have …"; empty if it does.
  std::string (*why_not)(const vision::Source& source);
  /// Returns the size of the network's input. @param given  by the user; 0×0: the workload chooses
  /// @throws Error{invalid_argument} if its models cannot have the given size
  vision::InputSize (*input)(const vision::Source& source, const vision::Size& given);
  /// Returns the usual input of a model; null: channels are those of the pictures, and `input` chooses the size.
  /// @param example  the "images" of small data that the model can take
  UsualInput (*usual_input)(const TensorSpec& example) = nullptr;
  /// Returns the numbers that bytes of the pictures stand for. @param source  the training part
  Normalization (*normalization)(const vision::Source& source, int channels);
  /// Returns the transforms. @param augment  what the user says about those of training; empty: nothing
  /// @param are_equal  whether all pictures have the size of the input
  /// @throws Error{invalid_argument} as vision::parse_transforms
  vision::Pipelines (*pipelines)(std::string_view augment, const vision::Size& input, bool are_equal);
  /// Returns the training transforms for steps of another size than the input. @throws as `pipelines`
  vision::StepSize (*step)(std::string_view augment, const vision::Size& size, bool are_equal);
  /// Returns the sizes that steps of many scales have, from `least` to `most` times the input; null: both sides change.
  /// @throws Error{invalid_argument} unless there are two at least
  std::vector<vision::Size> (*step_sizes)(const vision::Size& input, double least, double most) = nullptr;
  /// Returns what writes the targets of the pictures of all parts. @param parts  those that there are
  std::shared_ptr<const vision::Collate> (*collate)(const std::vector<const vision::Source*>& parts);
  /// Returns what writes these tensors of a batch, which a model was made for.
  std::shared_ptr<const vision::Collate> (*collate_of_model)(const std::vector<TensorSpec>& tensors);
  /// Returns the groups in which pictures are evaluated, each with an input of its own; null: all have the usual input.
  /// @param sizes  of the stored pictures; 0×0: not known
  /// @param evaluation  the transforms of evaluations
  /// @throws Error{invalid_argument} for a picture that is too large
  std::vector<vision::PictureGroup> (*groups)(std::span<const vision::Size> sizes, const vision::Size& input,
                                              std::span<const vision::Transform> evaluation) = nullptr;
  /// Whether evaluations resize all pictures by a factor (`Transform::factor`) instead of to a size.
  bool evaluates_at_scale = false;
  /// Returns what reads the findings of a model; empty if the model has no output for them.
  Find (*find)(const FoundModel& model, const FindOptions& options);
  /// Makes the metrics of evaluations that read the annotations of a source; null: the workload's, which read tensors.
  /// @throws Error{invalid_argument} for a model that they cannot evaluate
  trainer::Workload::Metrics (*metrics)(const FoundModel& model,
                                        std::shared_ptr<const vision::Source> source) = nullptr;
};

}  // namespace lockstep::workloads
