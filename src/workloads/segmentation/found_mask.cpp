// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/found_mask.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/wrapped.hpp"
#include "vision/image/draw.hpp"
#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

using vision::Image;

/// The logits of a sample: a plane for each class.
template <typename Real>
struct Logits {
  const Real* values;
  std::int64_t classes;
  int width;
  int height;

  /// The class with the largest number at a pixel; the first of equal ones.
  [[nodiscard]] std::uint8_t best(int x, int y) const {
    const std::int64_t plane = std::int64_t{width} * height;
    const Real* at = values + std::int64_t{y} * width + x;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes; ++c)
      if (at[c * plane] > at[best * plane]) best = c;
    return static_cast<std::uint8_t>(best);
  }
};

/// Returns the class of each pixel of the stored picture: that of the pixel of the input in which its middle lies.
template <typename Real>
Image mask_of(const Logits<Real>& logits, const vision::Frame& frame) {
  Image mask;
  mask.resize(frame.width, frame.height, 1);
  const auto position = [](double scale, double shift, int at, int extent) {
    return std::clamp(static_cast<int>(std::floor(scale * (at + 0.5) + shift)), 0, extent - 1);
  };
  for (int y = 0; y < mask.height; ++y) {
    const auto row = mask.row(y);
    const int from = position(frame.scale_y, frame.top, y, logits.height);
    for (int x = 0; x < mask.width; ++x)
      row[static_cast<std::size_t>(x)] = logits.best(position(frame.scale_x, frame.left, x, logits.width), from);
  }
  return mask;
}

}  // namespace

std::vector<std::pair<std::int64_t, std::int64_t>> FoundMask::shares() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> shares;
  for (std::int64_t label = 0; label < classes_; ++label)
    if (const auto pixels = std::ranges::count(mask_.pixels, label); pixels > 0) shares.emplace_back(pixels, label);
  std::ranges::stable_sort(shares, std::greater<>(), &std::pair<std::int64_t, std::int64_t>::first);
  return shares;
}

void FoundMask::add_to(nlohmann::ordered_json& object, const std::vector<std::string>& class_names) const {
  object["classes"] = nlohmann::ordered_json::array();
  for (const auto& [pixels, label] : shares())
    object["classes"].push_back(
        {{"class", label},
         {"name", class_names[static_cast<std::size_t>(label)]},
         {"pixels", std::round(1e6 * static_cast<double>(pixels) / static_cast<double>(mask_.pixels.size())) / 1e6}});
}

void FoundMask::draw(const std::vector<std::string>& /*class_names*/, Image& picture) const {
  vision::draw_mask(mask_, picture);
}

vision::Caption FoundMask::caption(const std::vector<std::string>& class_names,
                                   const vision::Annotation& /*annotation*/) const {
  constexpr std::size_t most_named = 2;
  std::string text;
  const auto all = shares();
  for (std::size_t i = 0; i < std::min(all.size(), most_named); ++i)
    text +=
        (i == 0 ? "" : ", ") + class_names[static_cast<std::size_t>(all[i].second)] +
        format_text(" %.0f%%", 100.0 * static_cast<double>(all[i].first) / static_cast<double>(mask_.pixels.size()));
  return {text};
}

Find find_masks(const FoundModel& model, const FindOptions& /*options*/) {
  const auto& [graph, tensors, classes] = model;
  const auto& images = tensors.front().extent;
  const auto logits =
      std::ranges::find_if(graph.outputs(), [&, &graph = graph, classes = classes](const nn::Output& one) {
        const ops::Shape shape = graph.shape(one.value);
        return shape.channels == classes && shape.height == images[1] && shape.width == images[2];
      });
  const auto frame = std::ranges::find(tensors, "frame", &TensorSpec::name);
  if (logits == graph.outputs().end() || frame == tensors.end()) return {};
  const auto output = static_cast<std::size_t>(logits - graph.outputs().begin());
  const auto frames = static_cast<std::size_t>(frame - tensors.begin());
  const auto height = static_cast<int>(images[1]);
  const auto width = static_cast<int>(images[2]);
  return [=, classes = classes](const nn::Prediction& prediction, const data::Batch& batch,
                                std::int64_t sample) -> std::unique_ptr<Finding> {
    const Buffer& all = prediction.outputs[output];
    const vision::Frame of_sample = frame_of(batch.tensors[frames], sample);
    const std::int64_t each = all.count.value / batch.samples.value;
    const auto read = [&](const auto* values) {
      return mask_of(Logits{values + sample * each, classes, width, height}, of_sample);
    };
    return std::make_unique<FoundMask>(all.dtype == DType::float64 ? read(static_cast<const double*>(all.data))
                                                                   : read(static_cast<const float*>(all.data)),
                                       classes);
  };
}

}  // namespace lockstep::workloads
