// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/segmentation_task.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "vision/picture_groups.hpp"
#include "workloads/segmentation/found_mask.hpp"
#include "workloads/segmentation/mask_metric.hpp"
#include "workloads/segmentation/segmentation.hpp"

namespace lockstep::workloads {
namespace {

using vision::Size;
using vision::Transform;

constexpr int stride = 8;  // of the networks
constexpr int evaluation_stride = 32;
constexpr int largest_own = 1024;  // side of pictures that become the input as they are
constexpr Size usual_crop{.width = 512, .height = 512};

std::string why_no_masks(const vision::Source& source) {
  if (source.size() > 0 && !source.annotation(0).mask_file.empty()) return {};
  return "its pictures have no masks, which segmentation needs";
}

bool is_possible(const Size& size) { return size.width % stride == 0 && size.height % stride == 0; }

vision::InputSize segmentation_input(const vision::Source& source, const Size& given) {
  if (given.width > 0 && !is_possible(given))
    throw Error(ErrorCode::invalid_argument, "an input of " + std::to_string(given.height) + "×" +
                                                 std::to_string(given.width) + " pixels: give a multiple of " +
                                                 std::to_string(stride) + ", because networks halve it three times");
  if (given.width > 0) return vision::given_input(source, given);
  std::vector<std::byte> bytes;
  for (std::int64_t sample = 0; sample < source.size(); ++sample) {
    const auto size = vision::size_of_sample(source, sample, bytes);
    if (!size) continue;  // a bad one
    const bool is_small = std::max(size->width, size->height) <= largest_own && is_possible(*size);
    const vision::InputSize own = is_small ? vision::given_input(source, *size) : vision::InputSize{};
    if (own.are_equal) return own;
    break;
  }
  return {.size = usual_crop};
}

/// Bytes stand for −1 to 1.
Normalization symmetric_normalization(const vision::Source& /*source*/, int channels) {
  const auto count = static_cast<std::size_t>(channels);
  return {.mean = std::vector<double>(count, 0.5), .deviation = std::vector<double>(count, 0.5)};
}

vision::StepSize segmentation_step(std::string_view augment, const Size& size, bool are_equal) {
  vision::StepSize step{.size = size, .transforms = segmentation_pipelines(augment, size, are_equal).training};
  step.transforms.push_back(vision::resize_to(size));
  return step;
}

/// Pictures are evaluated as a whole, at the scale that the transforms have.
std::vector<vision::PictureGroup> groups_of_pictures(std::span<const Size> sizes, const Size& input,
                                                     std::span<const Transform> evaluation) {
  const auto scale = std::ranges::find_if(evaluation, [](const Transform& one) { return one.factor > 0; });
  return vision::groups_by_scale(sizes, scale == evaluation.end() ? 1 : scale->factor, input, evaluation_stride);
}

}  // namespace

vision::Pipelines segmentation_pipelines(std::string_view augment, const Size& input, bool are_equal) {
  const std::string_view usual = are_equal ? "flip" : "scale,flip";
  vision::Pipelines pipelines{.training = vision::parse_transforms(augment.empty() ? usual : augment, input)};
  std::vector<Transform>& training = pipelines.training;
  if (!training.empty() && training.front().compose)
    throw Error(ErrorCode::invalid_argument, "the transform mosaic makes no masks; leave it out, as with scale,flip");
  const auto scale =
      std::ranges::find_if(training, [](const Transform& one) { return one.text.starts_with("scale:"); });
  const bool has_size = vision::set_size(training);
  if (!has_size && (!are_equal || scale != training.end()))
    training.insert(scale == training.end() ? training.begin() : scale + 1, vision::random_crop(input));
  if (!are_equal) pipelines.evaluation = {vision::random_scale(1, 1), vision::random_crop(input)};
  return pipelines;
}

PictureTask segmentation() {
  return {.why_not = why_no_masks,
          .input = segmentation_input,
          .normalization = symmetric_normalization,
          .pipelines = segmentation_pipelines,
          .step = segmentation_step,
          .collate = [](const std::vector<const vision::Source*>&) { return pixel_labels_and_frame(); },
          .collate_of_model = [](const std::vector<TensorSpec>&) { return pixel_labels_and_frame(); },
          .groups = groups_of_pictures,
          .evaluates_at_scale = true,
          .find = find_masks,
          .metrics = mask_metrics};
}

}  // namespace lockstep::workloads
