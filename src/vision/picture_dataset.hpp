// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.hpp"
#include "vision/cache/picture_cache.hpp"
#include "vision/collate.hpp"
#include "vision/source/bad_samples.hpp"
#include "vision/source/source.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::vision {

/// Pictures that are evaluated with the same size of the network's input.
struct PictureGroup {
  StepSize size;
  std::vector<std::int64_t> samples;  ///< by number in the source
};

/// How a data set of pictures is made from a source.
struct PictureOptions {
  std::string name;  ///< of the data set, for messages
  int channels = 3;  ///< of the network's input: 1 or 3
  Size input;        ///< size of the network's input, which the transforms bring pictures to
  std::vector<Transform> transforms = {};
  /// The sizes that training steps have, each equally often; empty: all have the size of the input.
  std::vector<StepSize> steps = {};
  /// How evaluations group the pictures; empty: all have the size of the input.
  std::vector<PictureGroup> groups = {};
  Normalization normalization = {};  ///< one mean and deviation for each channel
  std::shared_ptr<const Collate> collate = std::make_shared<LabelCollate>();  ///< what becomes of annotations
  OnBadSample on_bad_sample = OnBadSample::stop;
  /// Whether a bad sample is left out, without an annotation, instead of replaced.
  bool is_evaluation = false;
  std::shared_ptr<BadSamples> bad_samples = {};  ///< gets those that are skipped; null: they are not recorded
  std::shared_ptr<PictureCache> cache = {};      ///< null: every picture is decoded when it is read.
                                                 ///< Not used for pictures that the source holds in memory
  std::int64_t first_in_cache = 0;               ///< the number of the first sample in the cache's table
};

/// How pictures are decoded for these transforms, for the contents of a cache on disk: "channels: 3, at least 448
/// pixels".
std::string decoding_text(int channels, std::span<const Transform> transforms, std::span<const StepSize> steps = {});

/// Pictures of a source, as a network sees them: decoded, transformed and normalized. Its tensors are "images" (real,
/// channels × height × width) and those of the collate, such as "labels". What a sample is follows from the key, the
/// source and the options only, and the size of a step from the options and its key.
class PictureDataset final : public data::Dataset {
 public:
  /// @throws Error{invalid_argument} if a number of channels is not 1 or 3, the normalization has another number, the
  ///         size is not positive, or the cache is too small for the samples
  PictureDataset(std::shared_ptr<const Source> source, PictureOptions options);

  [[nodiscard]] std::string name() const override { return options_.name; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return extents().front(); }
  [[nodiscard]] std::vector<std::vector<TensorSpec>> extents() const override;
  [[nodiscard]] std::size_t extents_of(const data::StepKey& step) const override;
  [[nodiscard]] std::vector<data::EvaluationGroup> evaluation_groups() const override;
  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] std::int64_t classes() const override {
    return static_cast<std::int64_t>(source_->class_names().size());
  }
  [[nodiscard]] std::vector<std::string> class_names() const override { return source_->class_names(); }
  [[nodiscard]] const Normalization* bytes_of(std::size_t tensor) const override {
    return tensor == 0 && !is_line_ ? &options_.normalization : nullptr;  // no byte stands for the zeros beside a line
  }
  /// Implements Dataset::read. Pictures become float32 or float64, or stay uint8, according to the dtype of their
  /// tensor. Once each thread has read a picture of the largest size, only decoders allocate.
  /// @throws Error{io} if a picture cannot be read; Error{corrupt} if its contents are at fault and bad samples stop
  ///         the run, or all are bad; Error{unsupported} for a kind of file that this lockstep was built without;
  ///         Error{invalid_argument} if a picture has another size than the network's input behind the transforms
  void read(const data::SampleKey& key, std::span<const Buffer> tensors) const override;

  /// A picture as the network sees it, before it is normalized, with its annotation in its pixels. Both are
  /// overwritten.
  /// @return whether the sample is a good one, or a good one took its place; otherwise the picture is black
  bool view(const data::SampleKey& key, Image& picture, Annotation& annotation) const;

  [[nodiscard]] const Source& source() const { return *source_; }
  [[nodiscard]] const PictureOptions& options() const { return options_; }

 private:
  struct Scratch;
  class Partners;

  [[nodiscard]] std::vector<TensorSpec> tensors_of(const Size& size) const;
  bool prepare(const data::SampleKey& key, Scratch& scratch) const;
  void load(std::int64_t sample, DecodedPicture& picture, Annotation& annotation, std::vector<std::byte>& bytes) const;
  void decode(std::int64_t sample, DecodedPicture& picture, std::vector<std::byte>& bytes) const;
  void transform(const data::SampleKey& key, std::int64_t sample, Scratch& scratch) const;
  void load_and_transform(const data::SampleKey& key, std::int64_t sample, Scratch& scratch) const;

  std::shared_ptr<const Source> source_;
  PictureOptions options_;
  std::vector<StepSize> sizes_;     ///< by extents: the input's, those of steps that differ from it, those of groups
  std::vector<std::size_t> drawn_;  ///< the extents of `PictureOptions::steps`
  bool is_line_ = false;            ///< whether pictures may be narrower (`Transform::is_line`)
  DecodeOptions decode_;
  std::vector<double> table_;        ///< channels × 256
  std::vector<float> single_table_;  ///< the same, rounded
};

}  // namespace lockstep::vision
