// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/found_mask.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/wrapped.hpp"
#include "vision/image/draw.hpp"
#include "workloads/segmentation/mask_reader.hpp"

namespace lockstep::workloads {
using vision::Image;

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
  const auto reader = MaskReader::of(model);
  if (!reader) return {};
  return [reader = *reader](const nn::Prediction& prediction, const data::Batch& batch,
                            std::int64_t sample) -> std::unique_ptr<Finding> {
    return std::make_unique<FoundMask>(reader.mask(prediction, batch, sample).value_or(Image{}), reader.classes());
  };
}

}  // namespace lockstep::workloads
