// SPDX-License-Identifier: Apache-2.0
#include "workloads/text/text_task.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "vision/picture_groups.hpp"
#include "vision/source/characters.hpp"
#include "workloads/text/found_text.hpp"
#include "workloads/text/text.hpp"
#include "workloads/text/text_metric.hpp"

namespace lockstep::workloads {
namespace {

using vision::LineEnd;
using vision::Size;
using vision::Transform;

constexpr Size paddle_ocr{.width = 100, .height = 32};
constexpr Size easy_ocr{.width = 256, .height = 64};
constexpr int pixels_per_step = 4;  // of the networks

std::string why_no_texts(const vision::Source& source) {
  if (source.size() > 0 && !source.annotation(0).text.empty()) return {};
  return "its pictures have no texts, which reading needs";
}

/// Lines are resized whatever size they have.
vision::InputSize text_input(const vision::Source& /*source*/, const Size& given) {
  if (given.width % pixels_per_step != 0)
    throw Error(ErrorCode::invalid_argument, "an input of " + std::to_string(given.height) + "×" +
                                                 std::to_string(given.width) + " pixels: give a width that is a " +
                                                 "multiple of " + std::to_string(pixels_per_step) +
                                                 ", because a step of the networks is so wide");
  return {.size = given.width > 0 ? given : paddle_ocr};
}

UsualInput usual_text_input(const TensorSpec& example) {
  const auto channels = static_cast<int>(example.extent[0]);
  return {.channels = channels, .size = channels == 1 ? easy_ocr : paddle_ocr};
}

/// Bytes stand for −1 to 1.
Normalization text_normalization(const vision::Source& /*source*/, int channels) {
  const auto count = static_cast<std::size_t>(channels);
  return {.mean = std::vector<double>(count, 0.5), .deviation = std::vector<double>(count, 0.5)};
}

LineEnd end_of(const Size& input) { return input.height == easy_ocr.height ? LineEnd::last_column : LineEnd::zeros; }

vision::StepSize text_step(std::string_view augment, const Size& size, bool are_equal) {
  return {.size = size, .transforms = text_pipelines(augment, size, are_equal).training};
}

std::vector<Size> widths_between(const Size& input, double least, double most) {
  constexpr int stride = 32;
  std::vector<Size> sizes;
  for (int width = stride; width <= most * input.width; width += stride)
    if (width >= least * input.width) sizes.push_back({.width = width, .height = input.height});
  if (sizes.size() >= 2) return sizes;
  throw Error(ErrorCode::invalid_argument,
              "there are fewer than two widths that are multiples of " + std::to_string(stride) +
                  " pixels, which steps of different widths need; give a wider range, or a wider input");
}

std::shared_ptr<const vision::Collate> targets_of(const std::vector<const vision::Source*>& parts) {
  std::int64_t longest = 1;
  for (const vision::Source* part : parts)
    for (std::int64_t i = 0; i < part->size(); ++i)
      longest = std::max(longest, vision::length_of(part->annotation(i).text));
  return character_targets(parts.front()->class_names(), longest);
}

/// Pictures that are predicted have no texts, so the characters do not matter.
std::shared_ptr<const vision::Collate> targets_of_model(const std::vector<TensorSpec>& tensors) {
  const auto targets = std::ranges::find(tensors, "targets", &TensorSpec::name);
  return character_targets({}, targets == tensors.end() ? 1 : targets->extent[2]);
}

/// The end of lines is that of the transforms, which a checkpoint may have brought.
std::vector<vision::PictureGroup> groups_of_lines(std::span<const Size> sizes, const Size& input,
                                                  std::span<const Transform> evaluation) {
  const bool has_zeros = std::ranges::any_of(evaluation, &Transform::is_line);
  return vision::groups_by_line(sizes, input, has_zeros ? LineEnd::zeros : LineEnd::last_column);
}

}  // namespace

vision::Pipelines text_pipelines(std::string_view augment, const Size& input, bool /*are_equal*/) {
  vision::Pipelines pipelines{.training = vision::parse_transforms(augment.empty() ? "none" : augment, input)};
  for (const Transform& one : pipelines.training)
    if (one.sets_size || one.compose || one.text == "flip")
      throw Error(ErrorCode::invalid_argument,
                  "the transform " + one.text.substr(0, one.text.find(':')) +
                      " leaves no line of text that can be read; leave it out, as with color-jitter");
  pipelines.evaluation = {vision::fit_line(input, end_of(input))};
  pipelines.training.push_back(pipelines.evaluation.front());
  return pipelines;
}

PictureTask text() {
  return {.why_not = why_no_texts,
          .input = text_input,
          .usual_input = usual_text_input,
          .normalization = text_normalization,
          .pipelines = text_pipelines,
          .step = text_step,
          .step_sizes = widths_between,
          .collate = targets_of,
          .collate_of_model = targets_of_model,
          .groups = groups_of_lines,
          .find = find_texts,
          .metrics = text_metrics};
}

}  // namespace lockstep::workloads
