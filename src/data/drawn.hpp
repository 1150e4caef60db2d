// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/canvas.hpp"
#include "lockstep/data/images.hpp"

namespace lockstep::data {

/// A data set of drawn images and of tensors with known facts about them. Derived classes define these tensors.
class DrawnDataset : public Dataset {
 public:
  [[nodiscard]] std::string name() const override { return images_.name; }
  /// Returns "images" and the tensors of targets().
  [[nodiscard]] std::vector<TensorSpec> tensors() const override;
  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] const Normalization* bytes_of(std::size_t tensor) const override {
    return tensor == 0 ? &normalization_ : nullptr;
  }
  /// Implements Dataset::read. It does not allocate.
  /// @throws Error{invalid_argument} if the index is not in the data set, or another number of tensors is given
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override;

 protected:
  DrawnDataset(Images images, Normalization normalization)
      : images_(std::move(images)), normalization_(std::move(normalization)) {}

  /// Writes one number. @param at  index of the element in the sample
  static void put(const Buffer& tensor, std::int64_t at, double value);

 private:
  [[nodiscard]] virtual std::vector<TensorSpec> targets() const = 0;
  /// Overwrites each target of a sample.
  virtual void read_targets(std::size_t sample, std::span<const Buffer> targets) const = 0;

  void read_image(std::int64_t sample, const Buffer& tensor) const;

  Images images_;  ///< the labels are not used
  Normalization normalization_;
};

/// Draws data sets of class `Kind` of both parts, normalized by mean and deviation of the training images.
/// @param draw  draws one image as `Draw` does, and returns the known facts about it
/// @throws Error{invalid_argument} as draw_images
template <typename Kind, typename DrawKnown>
DatasetPair drawn_pair(const Images& form, const SyntheticOptions& options, RandomStream train, RandomStream test,
                       DrawKnown* draw) {
  std::optional<Normalization> normalization;
  const auto part = [&](Count count, RandomStream stream) {
    std::vector<decltype(draw(0, std::declval<Random&>(), {}))> known;
    Images images = draw_images(form, count, options.seed, stream,
                                [&](std::int32_t label, Random& random, std::span<double> elements) {
                                  known.push_back(draw(label, random, elements));
                                });
    if (!normalization) normalization = measure_normalization(images);
    return std::make_shared<Kind>(std::move(images), *normalization, std::move(known));
  };
  auto training = part(options.train, train);
  return {std::move(training), part(options.test, test)};
}

}  // namespace lockstep::data
