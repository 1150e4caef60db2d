// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/learning_rate.hpp"

namespace lockstep::nn {

/// Recommended hyper-parameters. `batch` is the total over all ranks.
struct Defaults {
  double learning_rate = 0.05;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  std::int64_t epochs = 3;
  std::int64_t batch = 128;
  Decay decay = Decay::constant;
  double warmup_epochs = 0;  ///< may be a fraction; the rate grows linearly up to the peak meanwhile
};

/// What a data set has for a model.
struct DataSpec {
  std::vector<TensorSpec> tensors;
  std::int64_t classes = 0;  ///< that labels tell apart, where there are labels

  /// @throws Error{invalid_argument} if there is no tensor of that name
  [[nodiscard]] const TensorSpec& at(std::string_view tensor) const;
  /// For who has images and labels only.
  static DataSpec of_images(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes);
};

/// Ends a classifier: the value that was made last is the logits, and cross-entropy against "labels" the loss.
/// @throws Error{invalid_argument} if there is no such tensor, or there are not as many logits as classes
void classify(Graph& graph, const DataSpec& data);

/// A model that can be asked for by name, with what it is usually trained with.
struct ModelEntry {
  std::string name;
  /// @throws Error{invalid_argument} for data that the model cannot take
  std::function<Graph(const DataSpec& data)> make;
  Defaults defaults;
  /// Small data that it can take, for whoever tries every model: tests, and comparisons with PyTorch.
  DataSpec example = DataSpec::of_images(3, 8, 8, 10);
};

/// Models by name. At first those that come with lockstep, one for each file of src/nn/models.
class Models {
 public:
  Models();
  /// One more. @throws Error{invalid_argument} if its name is taken
  void add(ModelEntry entry);

  [[nodiscard]] std::vector<std::string_view> names() const;
  /// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list
  [[nodiscard]] const Defaults& defaults(std::string_view name) const;
  /// @throws as above
  [[nodiscard]] const DataSpec& example(std::string_view name) const;
  /// @throws as above, and what the model throws
  [[nodiscard]] Graph make(std::string_view name, const DataSpec& data) const;

 private:
  [[nodiscard]] const ModelEntry& at(std::string_view name) const;
  std::vector<ModelEntry> entries_;
};

/// The model of that name that comes with lockstep. @throws as Models::make
Graph make_model(std::string_view name, const DataSpec& data);

}  // namespace lockstep::nn
