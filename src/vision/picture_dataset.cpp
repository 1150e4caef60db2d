// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_dataset.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "data/sample_random.hpp"
#include "lockstep/base/error.hpp"
#include "vision/picture_defaults.hpp"
#include "vision/planes.hpp"
#include "vision/source/files.hpp"
#include "vision/transforms/geometry.hpp"

namespace lockstep::vision {
namespace {

std::string extents_text(int width, int height) { return std::to_string(width) + "×" + std::to_string(height); }

void check_options(const Source& source, const PictureOptions& options) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "the data set \"" + options.name + "\" " + what);
  };
  const auto channels = static_cast<std::size_t>(options.channels);
  if (options.channels != 1 && options.channels != 3)
    refuse("cannot have " + std::to_string(options.channels) + " channels; 1 and 3 are possible");
  if (options.normalization.mean.size() != channels || options.normalization.deviation.size() != channels)
    refuse("has " + std::to_string(options.channels) + " channels, but " +
           std::to_string(options.normalization.mean.size()) + " means and " +
           std::to_string(options.normalization.deviation.size()) + " deviations; give one of each for a channel");
  std::vector<Size> sizes = {options.input};
  for (const StepSize& step : options.steps) sizes.push_back(step.size);
  for (const PictureGroup& group : options.groups) sizes.push_back(group.size.size);
  for (const auto& [width, height] : sizes)
    if (width < 1 || height < 1) refuse("cannot have pictures of " + extents_text(width, height) + " pixels");
  if (options.cache != nullptr && options.first_in_cache + source.size() > options.cache->samples())
    refuse("has more samples than its cache has places for, " + std::to_string(options.cache->samples()));
}

/// Boxes in pixels are right only for a picture of the size that they were drawn in.
bool fits(const DecodedPicture& picture, const Annotation& annotation) {
  return annotation.boxes.empty() || annotation.width <= 0 || annotation.height <= 0 ||
         (picture.original_width == annotation.width && picture.original_height == annotation.height);
}

/// Gives a mask the size of its picture, which was perhaps scaled when it was decoded.
void fit_mask(const Source& source, std::int64_t sample, DecodedPicture& picture) {
  Image& mask = picture.mask;
  if (mask.width != picture.original_width || mask.height != picture.original_height)
    throw Error(ErrorCode::corrupt, shown(source.place(sample)) + " has " +
                                        extents_text(picture.original_width, picture.original_height) +
                                        " pixels, but its mask has " + extents_text(mask.width, mask.height));
  const Image& image = picture.image;
  if (image.width == mask.width && image.height == mask.height) return;
  Image fitting;
  resize_nearest(mask, {.width = mask.width, .height = mask.height}, image.width, image.height, fitting);
  std::swap(mask, fitting);
}

/// The shorter side that decoded pictures need for all sizes of steps; 0: all their pixels. A picture is decoded and
/// cached once, whatever the size of its next step.
int needed_side_of_all(std::span<const Transform> transforms, std::span<const StepSize> steps) {
  int side = needed_side(transforms);
  for (const StepSize& step : steps) {
    const int needed = needed_side(step.transforms);
    side = side == 0 || needed == 0 ? 0 : std::max(side, needed);
  }
  return side;
}

}  // namespace

std::string decoding_text(int channels, std::span<const Transform> transforms, std::span<const StepSize> steps) {
  const int side = needed_side_of_all(transforms, steps);
  return "channels: " + std::to_string(channels) + ", " +
         (side == 0 ? "all pixels" : "at least " + std::to_string(side) + " pixels");
}

/// The memory of a thread.
struct PictureDataset::Scratch {
  std::vector<std::byte> bytes;
  DecodedPicture picture;
  Image other;
  Annotation annotation;
  DecodedPicture partner;  // of a transform that makes one picture of several
  Annotation partner_annotation;
};

/// The samples that a transform composes a picture of, in the memory of a thread.
class PictureDataset::Partners final : public Samples {
 public:
  Partners(const PictureDataset& dataset, Scratch& scratch) : dataset_(dataset), scratch_(scratch) {}

  [[nodiscard]] std::int64_t size() const override { return dataset_.size(); }
  LoadedSample load(std::int64_t sample) override {
    const auto load_one = [&](std::int64_t number) {
      dataset_.load(number, scratch_.partner, scratch_.partner_annotation, scratch_.bytes);
    };
    if (dataset_.options_.on_bad_sample == OnBadSample::stop) {
      load_one(sample);
    } else {
      load_next_good(*dataset_.source_, sample, *dataset_.options_.bad_samples, std::ref(load_one));
    }
    return {&scratch_.partner.image, &scratch_.partner_annotation};
  }

 private:
  const PictureDataset& dataset_;
  Scratch& scratch_;
};

PictureDataset::PictureDataset(std::shared_ptr<const Source> source, PictureOptions options)
    : source_(std::move(source)), options_(std::move(options)) {
  check_options(*source_, options_);
  if (options_.bad_samples == nullptr) options_.bad_samples = std::make_shared<BadSamples>(options_.name);
  decode_.channels = options_.channels;
  decode_.least_side = needed_side_of_all(options_.transforms, options_.steps);
  sizes_.push_back({.size = options_.input, .transforms = options_.transforms});
  for (const StepSize& step : options_.steps) {
    const bool is_usual = step.size == options_.input;
    if (!is_usual) sizes_.push_back(step);
    drawn_.push_back(is_usual ? 0 : sizes_.size() - 1);
  }
  for (const PictureGroup& group : options_.groups) sizes_.push_back(group.size);
  is_line_ = std::ranges::any_of(
      sizes_, [](const StepSize& size) { return std::ranges::any_of(size.transforms, &Transform::is_line); });
  table_ = options_.normalization.table();
  single_table_.assign(table_.begin(), table_.end());
}

std::vector<TensorSpec> PictureDataset::tensors_of(const Size& size) const {
  std::vector<TensorSpec> specs = {{"images", {options_.channels, size.height, size.width}, Content::real}};
  for (TensorSpec& target : options_.collate->tensors(size, classes())) specs.push_back(std::move(target));
  return specs;
}

std::vector<std::vector<TensorSpec>> PictureDataset::extents() const {
  std::vector<std::vector<TensorSpec>> all;
  for (std::size_t i = 0; i < sizes_.size() - options_.groups.size(); ++i) all.push_back(tensors_of(sizes_[i].size));
  return all;
}

std::vector<data::EvaluationGroup> PictureDataset::evaluation_groups() const {
  std::vector<data::EvaluationGroup> groups;
  for (const auto& [size, samples] : options_.groups) groups.push_back({tensors_of(size.size), samples});
  return groups;
}

std::size_t PictureDataset::extents_of(const data::StepKey& step) const {
  if (drawn_.empty()) return 0;
  return drawn_[data::random_of(step, data::RandomStream::step_extents).below(drawn_.size())];
}

void PictureDataset::read(const data::SampleKey& key, std::span<const Buffer> tensors) const {
  thread_local Scratch scratch;
  (void)prepare(key, scratch);
  options_.collate->write(scratch.annotation, sizes_[key.extents].size, tensors.subspan(1));
  const Image& picture = scratch.picture.image;
  void* planes = tensors[0].data;
  if (is_line_) {
    const int width = sizes_[key.extents].size.width;
    if (tensors[0].dtype == DType::float64)
      return write_line_planes(picture, width, table_.data(), static_cast<double*>(planes));
    return write_line_planes(picture, width, single_table_.data(), static_cast<float*>(planes));
  }
  if (tensors[0].dtype == DType::uint8) return write_planes(picture, static_cast<std::uint8_t*>(planes));
  if (tensors[0].dtype == DType::float64) return write_planes(picture, table_.data(), static_cast<double*>(planes));
  write_planes(picture, single_table_.data(), static_cast<float*>(planes));
}

bool PictureDataset::view(const data::SampleKey& key, Image& picture, Annotation& annotation) const {
  thread_local Scratch scratch;
  const bool is_good = prepare(key, scratch);
  picture = scratch.picture.image;
  annotation = scratch.annotation;
  return is_good;
}

/// Makes the picture and annotation of a sample in the scratch memory, or of the sample that takes its place.
/// @return false if the sample is left out
bool PictureDataset::prepare(const data::SampleKey& key, Scratch& scratch) const {
  if (options_.on_bad_sample == OnBadSample::stop) {
    try {
      load_and_transform(key, key.index, scratch);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt) throw;
      throw Error(ErrorCode::corrupt,
                  error.message() + "; replace the file, or skip such samples (--on-bad-sample skip)", error.context());
    }
  }
  BadSamples& bad = *options_.bad_samples;
  if (!options_.is_evaluation) {
    const auto load = [&](std::int64_t sample) { load_and_transform(key, sample, scratch); };
    load_next_good(*source_, key.index, bad, std::ref(load));  // by reference: a copy would be allocated
    return true;
  }
  if (!bad.contains(key.index)) {
    try {
      load_and_transform(key, key.index, scratch);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt) throw;
      bad.add(key.index, source_->place(key.index), error.message());
    }
  }
  Image& picture = scratch.picture.image;
  const Size& size = sizes_[key.extents].size;
  picture.resize(size.width, size.height, options_.channels);
  std::fill(picture.pixels.begin(), picture.pixels.end(), std::uint8_t{0});
  scratch.annotation = {};
  return false;
}

/// @param key  its index decides what transforms draw, whichever sample takes its place
void PictureDataset::load_and_transform(const data::SampleKey& key, std::int64_t sample, Scratch& scratch) const {
  load(sample, scratch.picture, scratch.annotation, scratch.bytes);
  transform(key, sample, scratch);
}

/// Loads a picture and its annotation, in the pixels that it has.
void PictureDataset::load(std::int64_t sample, DecodedPicture& picture, Annotation& annotation,
                          std::vector<std::byte>& bytes) const {
  decode(sample, picture, bytes);
  annotation = source_->annotation(sample);
  if (!picture.mask.pixels.empty()) std::swap(annotation.mask, picture.mask);
  if (!fits(picture, annotation))
    throw Error(ErrorCode::corrupt, shown(source_->place(sample)) + " has " +
                                        extents_text(picture.original_width, picture.original_height) +
                                        " pixels, but its boxes belong to a picture of " +
                                        extents_text(annotation.width, annotation.height));
  annotation.frame = {.width = picture.original_width, .height = picture.original_height};
  const Image& image = picture.image;
  if (picture.original_width != image.width)
    scale_annotation(static_cast<double>(image.width) / picture.original_width,
                     static_cast<double>(image.height) / picture.original_height, annotation);
}

/// Takes a decoded picture from the cache, or decodes it and keeps it there.
void PictureDataset::decode(std::int64_t sample, DecodedPicture& picture, std::vector<std::byte>& bytes) const {
  PictureCache* cache = options_.cache.get();
  if (cache != nullptr && cache->find(options_.first_in_cache + sample, picture)) return;
  source_->read(sample, bytes);
  source_->decode(sample, bytes, decode_, picture.image);
  picture.original_width = picture.image.width;
  picture.original_height = picture.image.height;
  const bool is_file = source_->stored_bytes(sample) >= 0;
  if (decode_.least_side > 0 && is_file && format_of(bytes) == PictureFormat::jpeg) {  // no other kind is scaled
    const PictureInfo original = inspect(bytes, decode_.limits);
    picture.original_width = original.width;
    picture.original_height = original.height;
  }
  source_->read_mask(sample, bytes, picture.mask);
  if (!picture.mask.pixels.empty()) fit_mask(*source_, sample, picture);
  if (cache != nullptr) cache->keep(options_.first_in_cache + sample, picture);
}

void PictureDataset::transform(const data::SampleKey& key, std::int64_t sample, Scratch& scratch) const {
  Image& image = scratch.picture.image;
  const auto& [size, transforms] = sizes_[key.extents];
  std::span<const Transform> rest = transforms;
  if (!rest.empty() && rest.front().compose) {  // its errors name the sample that they are about
    Partners partners(*this, scratch);
    const Transform* next = rest.size() > 1 ? &rest[1] : nullptr;
    rest.front().compose(key, partners, next, image, scratch.annotation, scratch.other);
    rest = rest.subspan(1);
  }
  try {
    for (const Transform& transform : rest) transform.apply(key, image, scratch.annotation, scratch.other);
  } catch (const Error& error) {
    throw Error(error.code(), shown(source_->place(sample)) + ": " + error.message());
  }
  const bool has_width = image.width == size.width || (is_line_ && image.width < size.width);
  if (has_width && image.height == size.height && image.channels == options_.channels) return;
  throw Error(ErrorCode::invalid_argument,
              shown(source_->place(sample)) + " has " + extents_text(image.width, image.height) +
                  " pixels where the network " + "takes " + extents_text(size.width, size.height) +
                  "; add a transform that sets the size, such as random-resized-crop or letterbox");
}

}  // namespace lockstep::vision
