// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/learning_rate.hpp"

namespace lockstep::nn {

/// Recommended hyperparameters. `batch` is the global batch.
struct Defaults {
  double learning_rate = 0.05;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  std::int64_t epochs = 3;
  std::int64_t batch = 128;
  Decay decay = Decay::constant;
  double warmup_epochs = 0;  ///< length of the linear warm-up in epochs; may be a fraction
  std::int64_t least_warmup_steps = 0;
  double power = 1;  ///< `LearningRateSchedule` has this and the following five
  double final_fraction = 0;
  bool decays_by_epoch = false;
  std::optional<double> warmup_start = {};
  std::optional<double> warmup_bias_rate = {};
  std::optional<double> warmup_momentum = {};
  bool decay_vectors = true;       ///< `OptimizerOptions::decay_vectors`
  std::int64_t nominal_batch = 0;  ///< `trainer::TrainerOptions::nominal_batch`
  bool loss_times_batch = false;   ///< `ops::StepOptions` has this as `times_samples`, and the following three
  double ema = 0;
  double ema_ramp = 0;
  bool ema_statistics = false;
};

/// The first layers of a model that has two versions of them. Networks for photographs halve their images five times,
/// which leaves too little of small ones.
enum class Stem {
  by_extent,  ///< cifar for images of less than 64 pixels in height or width, imagenet for others
  cifar,      ///< without the first halvings, as is usual on CIFAR
  imagenet,   ///< torchvision's
};

/// What a model is made from: the tensors and classes of a data set, and a choice.
struct DataSpec {
  std::vector<TensorSpec> tensors;
  std::int64_t classes = 0;     ///< number of classes of the labels; 0 without labels
  Stem stem = Stem::by_extent;  ///< `by_extent` is replaced by the model's usual stem before `ModelEntry::make`
  /// The longer side of the images that the run is for, in pixels, if steps have other extents; 0: that of "images".
  std::int64_t image_size = 0;
  /// Anchors of a detector, width and height of each in pixels, from the finest level on; empty: the model's own.
  std::vector<double> anchors = {};

  /// @throws Error{invalid_argument} if there is no tensor of that name
  [[nodiscard]] const TensorSpec& at(std::string_view tensor) const;
  /// The specification of a data set with "images" and "labels" only.
  static DataSpec of_images(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes);
};

/// Completes a classifier: the last value of the graph becomes the logits, and cross-entropy against "labels" the loss.
/// @throws Error{invalid_argument} if there is no such tensor, or there are not as many logits as classes
void classify(Graph& graph, const DataSpec& data);

/// A model with its name and its recommended hyperparameters.
struct ModelEntry {
  std::string name;
  /// @throws Error{invalid_argument} for data that the model cannot take
  std::function<Graph(const DataSpec& data)> make;
  Defaults defaults;
  /// What it is trained for. Programs know how models of a workload are evaluated by its name.
  std::string workload = "classification";
  /// Small data that the model can take, for tests and for comparisons with PyTorch.
  DataSpec example = DataSpec::of_images(3, 8, 8, 10);
  /// The stem where none is chosen; none if the model has only one, which then need not read `DataSpec::stem`.
  std::optional<Stem> usual_stem = {};
  /// The anchors that it has where none are chosen, as `DataSpec::anchors`; empty: it has no anchors.
  std::vector<double> usual_anchors = {};
};

/// Models by name. It contains the models of lockstep from the start, which are in src/nn/models.
class Models {
 public:
  Models();
  /// Adds a model. @throws Error{invalid_argument} if its name is taken
  void add(ModelEntry entry);

  [[nodiscard]] std::vector<std::string_view> names() const;
  /// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list
  [[nodiscard]] const Defaults& defaults(std::string_view name) const;
  /// @throws as above
  [[nodiscard]] const DataSpec& example(std::string_view name) const;
  /// @throws as above
  [[nodiscard]] const std::string& workload(std::string_view name) const;
  /// @throws as above
  [[nodiscard]] const std::vector<double>& usual_anchors(std::string_view name) const;
  /// Returns the stem that the model has for such data: cifar or imagenet; none if it has only one.
  /// @throws as above
  [[nodiscard]] std::optional<Stem> stem(std::string_view name, const DataSpec& data) const;
  /// @throws as above, and what the model throws
  [[nodiscard]] Graph make(std::string_view name, const DataSpec& data) const;

 private:
  [[nodiscard]] const ModelEntry& at(std::string_view name) const;
  std::vector<ModelEntry> entries_;
};

/// Makes the model of lockstep that has this name. @throws as Models::make
Graph make_model(std::string_view name, const DataSpec& data);

}  // namespace lockstep::nn
