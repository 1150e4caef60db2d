// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/batch.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/nn/model.hpp"
#include "vision/show_batch.hpp"
#include "vision/source/source.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::workloads {

/// A model whose outputs are read, and the data that it is for.
struct FoundModel {
  const nn::Graph& graph;
  const std::vector<TensorSpec>& tensors;  ///< of a batch
  std::int64_t classes = 0;
  std::vector<vision::Size> inputs = {};  ///< the sizes of the network's input (`input_sizes`)
};

/// Returns the sizes of the network's input when a data set is evaluated, by data::Batch::extents.
std::vector<vision::Size> input_sizes(const data::Dataset& evaluated);

/// What users say about findings. The defaults are those of YOLOv5.
struct FindOptions {
  double confidence = 0.25;  ///< the least score of a detection
  double iou = 0.45;         ///< a detection that overlaps a better one of its class more is left out
  int most = 300;            ///< most detections of a picture
};

/// What a model says about a picture, as its workload reads it from the outputs.
class Finding {
 public:
  virtual ~Finding() = default;
  /// Adds it to the object of the picture in predictions.jsonl.
  virtual void add_to(nlohmann::ordered_json& object, const std::vector<std::string>& class_names) const = 0;
  /// Returns the lines of a file of labels; nothing where there is no such file.
  /// @param width, height  of the picture as it is stored
  [[nodiscard]] virtual std::optional<std::string> label_lines(int /*width*/, int /*height*/,
                                                               bool /*has_scores*/) const {
    return {};
  }
  /// Adds it to the array of COCO's predictions.json.
  /// @param image_id  of the picture
  /// @param category_ids  by label; empty: they are the labels
  /// @return whether there is such a file
  virtual bool add_coco(std::int64_t /*image_id*/, std::span<const std::int64_t> /*category_ids*/,
                        nlohmann::ordered_json& /*predictions*/) const {
    return false;
  }
  /// Returns the class of each pixel of the picture as it is stored, for a PNG of it; null where there is none.
  [[nodiscard]] virtual const vision::Image* mask() const { return nullptr; }
  /// Draws it on the picture as it is stored.
  virtual void draw(const std::vector<std::string>& class_names, vision::Image& picture) const = 0;
  /// Returns it in a few words for a sheet of pictures, in a color that says whether the annotation agrees.
  [[nodiscard]] virtual vision::Caption caption(const std::vector<std::string>& class_names,
                                                const vision::Annotation& annotation) const = 0;
};

/// Reads the finding of a sample, by its position in the batch.
using Find = std::function<std::unique_ptr<Finding>(const nn::Prediction& prediction, const data::Batch& batch,
                                                    std::int64_t sample)>;

}  // namespace lockstep::workloads
