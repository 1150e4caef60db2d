// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"

namespace lockstep::data {

/// Samples, each of which is a slice of every named tensor. Whoever has data of another kind derives from it.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// What a batch consists of. For classification: "images" and "labels".
  [[nodiscard]] virtual std::vector<TensorSpec> tensors() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// That labels tell apart; 0 where there are no labels.
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  /// Overwrites the first `indices.size()` samples of each tensor, in the order of `tensors()`, all row-major. Several
  /// threads may call it at once. It must depend on nothing but the indices, so that runs can be repeated, and should
  /// not allocate.
  /// @param indices  each in 0 … size() − 1
  virtual void read(std::span<const std::int64_t> indices, std::span<const Buffer> tensors) const = 0;
};

/// What is trained on, and what is only evaluated. Both have the same tensors and number of classes.
struct DatasetPair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

}  // namespace lockstep::data
