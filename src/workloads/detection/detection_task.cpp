// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/detection_task.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "vision/picture_groups.hpp"
#include "workloads/detection/boxes_and_frame.hpp"
#include "workloads/detection/detection_metrics.hpp"
#include "workloads/detection/detection_reader.hpp"

namespace lockstep::workloads {
namespace {

using vision::Size;
using vision::Transform;

constexpr int coarsest_stride = 32;
constexpr Size usual_input{.width = 640, .height = 640};

std::string why_no_boxes(const vision::Source& source) {
  for (std::int64_t sample = 0; sample < source.size(); ++sample)
    if (!source.annotation(sample).boxes.empty()) return {};
  return "its pictures have no boxes, which detection needs";
}

vision::InputSize detection_input(const vision::Source& /*source*/, const Size& given) {
  if (given.width == 0) return {.size = usual_input};
  if (given.width % coarsest_stride == 0 && given.height % coarsest_stride == 0) return {.size = given};
  const auto rounded = [](int side) {
    return std::to_string((side + coarsest_stride - 1) / coarsest_stride * coarsest_stride);
  };
  const bool is_square = given.width == given.height;
  throw Error(ErrorCode::invalid_argument,
              "an input of " + std::to_string(given.height) + "×" + std::to_string(given.width) +
                  " pixels: detectors halve pictures five times, so give a multiple of 32, such as " +
                  (is_square ? rounded(given.width) : rounded(given.height) + "x" + rounded(given.width)));
}

/// Bytes stand for 0 to 1.
Normalization unit_normalization(const vision::Source& /*source*/, int channels) {
  const auto count = static_cast<std::size_t>(channels);
  return {.mean = std::vector<double>(count, 0.0), .deviation = std::vector<double>(count, 1.0)};
}

vision::StepSize detection_step(std::string_view augment, const Size& size, bool are_equal) {
  vision::StepSize step{.size = size, .transforms = detection_pipelines(augment, size, are_equal).training};
  step.transforms.push_back(vision::resize_to(size));
  return step;
}

std::shared_ptr<const vision::Collate> collate_of(const std::vector<const vision::Source*>& sources) {
  return boxes_and_frame(most_boxes(sources));
}

std::shared_ptr<const vision::Collate> collate_of_model(const std::vector<TensorSpec>& tensors) {
  const auto boxes = std::ranges::find(tensors, "boxes", &TensorSpec::name);
  return boxes_and_frame(boxes == tensors.end() ? 1 : boxes->extent[2]);
}

Find find_in_outputs(const FoundModel& model, const FindOptions& options) {
  return find_boxes(model.graph, model.tensors, model.classes,
                    {.confidence = options.confidence, .iou = options.iou, .most = options.most});
}

std::vector<vision::PictureGroup> groups_of(std::span<const Size> sizes, const Size& input,
                                            std::span<const Transform> /*evaluation*/) {
  return vision::groups_by_ratio(sizes, input, coarsest_stride);
}

trainer::Workload::Metrics metrics_of_boxes(const FoundModel& model, std::shared_ptr<const vision::Source> source) {
  return detection_metrics(model.graph, model.tensors, std::move(source));
}

}  // namespace

vision::Pipelines detection_pipelines(std::string_view augment, const Size& input, bool /*are_equal*/) {
  vision::Pipelines pipelines{
      .training = vision::parse_transforms(augment.empty() ? "mosaic,affine,hsv,flip" : augment, input),
      .evaluation = {vision::letterbox(input)}};
  std::vector<Transform>& training = pipelines.training;
  const auto sizing = std::ranges::find_if(training, &Transform::sets_size);
  const bool has_mosaic = !training.empty() && training.front().compose;
  const bool is_letterboxed_first = sizing == training.end() || sizing->seen;  // by what comes before an affine one
  if (has_mosaic && sizing == training.end()) {
    training.insert(training.begin() + 1, vision::random_affine(input, {}));
  } else if (!has_mosaic && is_letterboxed_first) {
    training.insert(training.begin(), vision::letterbox(input));
  }
  return pipelines;
}

PictureTask detection() {
  return {.why_not = why_no_boxes,
          .input = detection_input,
          .normalization = unit_normalization,
          .pipelines = detection_pipelines,
          .step = detection_step,
          .collate = collate_of,
          .collate_of_model = collate_of_model,
          .groups = groups_of,
          .find = find_in_outputs,
          .metrics = metrics_of_boxes};
}

}  // namespace lockstep::workloads
