// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "vision/show_batch.hpp"
#include "vision/source/source.hpp"

namespace lockstep::workloads {

/// What a model says about a picture, as its workload reads it from the outputs.
class Finding {
 public:
  virtual ~Finding() = default;
  /// Adds it to the object of the picture in predictions.jsonl.
  virtual void add_to(nlohmann::ordered_json& object, const std::vector<std::string>& class_names) const = 0;
  /// Draws it on the picture as it is stored.
  virtual void draw(const std::vector<std::string>& class_names, vision::Image& picture) const = 0;
  /// Returns it in a few words for a sheet of pictures, in a color that says whether the annotation agrees.
  [[nodiscard]] virtual vision::Caption caption(const std::vector<std::string>& class_names,
                                                const vision::Annotation& annotation) const = 0;
};

/// Reads the finding of a sample, by its position in the batch.
using Find = std::function<std::unique_ptr<Finding>(const nn::Prediction& prediction, std::int64_t sample)>;

}  // namespace lockstep::workloads
