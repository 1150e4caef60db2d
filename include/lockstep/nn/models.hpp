// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/nn/learning_rate.hpp"
#include "lockstep/nn/network.hpp"

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
  double warmup_fraction = 0;
};

/// A model that can be asked for by name, with what it is usually trained with.
struct ModelEntry {
  std::string name;
  /// Makes the network for images of this extent, its activations not fused.
  /// @throws Error{invalid_argument} for images that the model cannot take
  std::function<Network(ops::Shape image, std::int64_t classes)> make;
  Defaults defaults;
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
  /// The model with its activations fused. @throws as above, and what the model throws
  [[nodiscard]] Network make(std::string_view name, ops::Shape image, std::int64_t classes) const;

 private:
  [[nodiscard]] const ModelEntry& at(std::string_view name) const;
  std::vector<ModelEntry> entries_;
};

/// The model of that name that comes with lockstep. @throws as Models::make
Network make_model(std::string_view name, ops::Shape image, std::int64_t classes);

}  // namespace lockstep::nn
