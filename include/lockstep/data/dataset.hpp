// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"

namespace lockstep::data {

/// A set of samples, each of which is a slice of every named tensor. Derive from it for data of your own.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// The tensors of a batch. A classification data set has "images" and "labels".
  [[nodiscard]] virtual std::vector<TensorSpec> tensors() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Number of classes of the labels; 0 if there are no labels.
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  /// Overwrites the first `indices.size()` samples of each tensor, in the order of `tensors()`, all row-major. Several
  /// threads may call it at once. The result must depend on the indices only, so that runs can be repeated. The
  /// function should not allocate.
  /// @param indices  each in 0 … size() − 1
  virtual void read(std::span<const std::int64_t> indices, std::span<const Buffer> tensors) const = 0;
};

/// The training set and the test set. Both have the same tensors and number of classes.
struct DatasetPair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

}  // namespace lockstep::data
