// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// The class that a network gives to each pixel of a picture, in pixels of the picture as it is stored.
class FoundMask final : public Finding {
 public:
  /// @param mask  one channel
  FoundMask(vision::Image mask, std::int64_t classes) : mask_(std::move(mask)), classes_(classes) {}
  /// Adds "classes": class, name and the part of the pixels, of each class that occurs, the largest first.
  void add_to(nlohmann::ordered_json& object, const std::vector<std::string>& class_names) const override;
  /// Mixes each pixel with the color of its class.
  void draw(const std::vector<std::string>& class_names, vision::Image& picture) const override;
  /// Returns the classes that take the most pixels.
  [[nodiscard]] vision::Caption caption(const std::vector<std::string>& class_names,
                                        const vision::Annotation& annotation) const override;
  [[nodiscard]] const vision::Image* mask() const override { return &mask_; }

 private:
  /// Returns pixels and class, the most first, of classes that occur.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> shares() const;

  vision::Image mask_;
  std::int64_t classes_;
};

/// Returns what reads the mask of a sample from the output of a network that has a number for each class and pixel, and
/// the tensor "frame" of the batch; empty if the network has no such output.
Find find_masks(const FoundModel& model, const FindOptions& options);

}  // namespace lockstep::workloads
