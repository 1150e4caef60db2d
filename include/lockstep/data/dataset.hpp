// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"

namespace lockstep::data {

/// What a sample of an epoch may depend on. Random augmentation draws from all of it. So a sample is the same on any
/// rank, in any thread, and in a run that is resumed.
struct SampleKey {
  std::uint64_t seed = 1;  ///< of the run
  std::int64_t epoch = 1;  ///< from 1; evaluations have epoch 1
  std::int64_t index = 0;  ///< of the sample in the data set
  /// Those of the tensors that `read` gets, as an index in `Dataset::extents()`, or behind these in
  /// `Dataset::evaluation_groups()`. What is drawn does not depend on it.
  std::size_t extents = 0;
};

/// What the extents of a step may depend on. So they are the same on all ranks, and in a run that is resumed.
struct StepKey {
  std::uint64_t seed = 1;  ///< of the run
  std::int64_t epoch = 1;  ///< from 1
  std::int64_t step = 0;   ///< of the epoch, from 0
};

/// Samples of a data set that are evaluated together, with the same extents.
struct EvaluationGroup {
  std::vector<TensorSpec> tensors;    ///< of their batches; they differ from the data set's in height and width only
  std::vector<std::int64_t> samples;  ///< in the order in which they are evaluated, by index in the data set
};

/// A set of samples, each of which is a slice of every named tensor. Derive from it for data of your own.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// The tensors of a batch. A classification data set has "images" and "labels".
  [[nodiscard]] virtual std::vector<TensorSpec> tensors() const = 0;
  /// The tensors of a batch with all extents that training steps may have: the first ones are `tensors()`, with which
  /// evaluations are made, and the others differ from them in height and width only. A model has a graph for each
  /// (`trainer::TrainerOptions::graphs`).
  [[nodiscard]] virtual std::vector<std::vector<TensorSpec>> extents() const { return {tensors()}; }
  /// The extents of a training step, as an index in `extents()`. It depends on the key only.
  [[nodiscard]] virtual std::size_t extents_of(const StepKey& /*step*/) const { return 0; }
  /// How evaluations take the samples: one group after the other, of which each sample is in one. Empty: all in the
  /// order of the data set, with the first extents. Samples of the group with index g are read with the extents number
  /// `extents().size()` + g. The result must depend on the data only, because all ranks have to know the same groups.
  [[nodiscard]] virtual std::vector<EvaluationGroup> evaluation_groups() const { return {}; }
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Number of classes of the labels; 0 if there are no labels.
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  /// The names of the classes, by label; empty if they have numbers only.
  [[nodiscard]] virtual std::vector<std::string> class_names() const { return {}; }
  /// The numbers that bytes of the real tensor of this index in `tensors()` stand for, if `read` also takes memory of
  /// uint8 for it; null: it does not. Batches of bytes are a quarter of the traffic to a device, which converts them.
  [[nodiscard]] virtual const Normalization* bytes_of(std::size_t /*tensor*/) const { return nullptr; }
  /// Overwrites one sample of each tensor. Several threads may call it at once. The result must depend on the key
  /// only, so that runs can be repeated. The function should not allocate.
  /// @param key      its index is in 0 … size() − 1
  /// @param tensors  in the order of `tensors()`, the elements of one sample each, with the extents of the key,
  ///                 row-major
  virtual void read(const SampleKey& key, std::span<const Buffer> tensors) const = 0;
};

/// Returns the tensors of a data set, as uint8 where it has bytes.
std::vector<TensorSpec> tensors_with_bytes(const Dataset& dataset);
/// Returns them with all extents (`Dataset::extents`).
/// @throws Error{invalid_argument} that names the tensor if they differ in more than height and width, or the first
///         ones are not `Dataset::tensors()`
std::vector<std::vector<TensorSpec>> extents_with_bytes(const Dataset& dataset);

/// The training set and the test set. Both have the same tensors, with the same bytes, and number of classes. Training
/// steps and groups of evaluations may have other extents than `Dataset::tensors()`.
struct DatasetPair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

/// All extents that a model needs for a pair of data sets.
struct PairExtents {
  std::vector<std::vector<TensorSpec>> all;   ///< with bytes; those of training steps come first
  std::size_t training = 1;                   ///< the number of those
  std::vector<std::size_t> evaluation = {0};  ///< by `SampleKey::extents` of the test set, the index in `all`
};
/// @throws Error{invalid_argument} that names the tensor if extents differ in more than height and width, or a sample
///         of the test set is in no evaluation group, or in two
PairExtents extents_of(const DatasetPair& pair);

}  // namespace lockstep::data
