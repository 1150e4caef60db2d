// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment.hpp"

#include <algorithm>

#include "data/sample_random.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

constexpr std::int64_t border_pixels = 4;

CropAndFlip placement_of(const SampleKey& key, const Augmentation& augmentation) {
  const auto [down, right, is_flipped] = draw_crop_and_flip(key, border_pixels);
  return {augmentation.crop ? down : 0, augmentation.crop ? right : 0, augmentation.flip && is_flipped};
}

/// Changes one channel of an image in place.
template <typename Element>
void place(Element* pixels, std::int64_t height, std::int64_t width, const CropAndFlip& placement, Element border) {
  const auto [down, right, is_flipped] = placement;
  // The columns that come from the image. A row is written when no row still needs it.
  const std::int64_t begin = std::clamp<std::int64_t>(-right, 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(width - right, begin, width);
  for (std::int64_t i = 0; i < height && (down != 0 || right != 0); ++i) {
    const std::int64_t row = down >= 0 ? i : height - 1 - i;
    const std::int64_t from = row + down;
    Element* to = pixels + row * width;
    if (from < 0 || from >= height || begin == end) {
      std::fill(to, to + width, border);
      continue;
    }
    const Element* first = pixels + (from * width + right + begin);
    const Element* last = first + (end - begin);
    right >= 0 ? std::copy(first, last, to + begin) : std::copy_backward(first, last, to + end);
    std::fill(to, to + begin, border);
    std::fill(to + end, to + width, border);
  }
  for (std::int64_t row = 0; row < height && is_flipped; ++row)
    std::reverse(pixels + row * width, pixels + (row + 1) * width);
}

class AugmentedDataset final : public Dataset {
 public:
  /// @param images  index of the tensor
  AugmentedDataset(std::shared_ptr<const Dataset> dataset, const Augmentation& augmentation, std::size_t images)
      : dataset_(std::move(dataset)), augmentation_(augmentation), images_(images) {
    for (const std::vector<TensorSpec>& tensors : dataset_->extents()) extents_.push_back(tensors[images].extent);
    border_.resize(static_cast<std::size_t>(extents_.front()[0]));
    if (const Normalization* numbers = dataset_->bytes_of(images)) {
      const std::vector<double> table = numbers->table();
      for (std::size_t channel = 0; channel < border_.size(); ++channel) border_[channel] = table[256 * channel];
    }
  }

  [[nodiscard]] std::string name() const override { return dataset_->name(); }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return dataset_->tensors(); }
  [[nodiscard]] std::vector<std::vector<TensorSpec>> extents() const override { return dataset_->extents(); }
  [[nodiscard]] std::size_t extents_of(const StepKey& step) const override { return dataset_->extents_of(step); }
  [[nodiscard]] std::int64_t size() const override { return dataset_->size(); }
  [[nodiscard]] std::int64_t classes() const override { return dataset_->classes(); }
  [[nodiscard]] std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  [[nodiscard]] const Normalization* bytes_of(std::size_t tensor) const override { return dataset_->bytes_of(tensor); }
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override {
    dataset_->read(key, tensors);
    const Buffer& image = tensors[images_];
    const CropAndFlip placement = placement_of(key, augmentation_);
    const std::array<std::int64_t, 3>& extent = extents_[key.extents];
    if (image.dtype == DType::uint8)
      return place_channels(static_cast<std::uint8_t*>(image.data), extent, placement, false);
    if (image.dtype == DType::float64) return place_channels(static_cast<double*>(image.data), extent, placement, true);
    place_channels(static_cast<float*>(image.data), extent, placement, true);
  }

 private:
  template <typename Element>
  void place_channels(Element* image, const std::array<std::int64_t, 3>& extent, const CropAndFlip& placement,
                      bool has_border) const {
    const auto [channels, height, width] = extent;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const double border = has_border ? border_[static_cast<std::size_t>(channel)] : 0;
      place(image + channel * height * width, height, width, placement, static_cast<Element>(border));
    }
  }

  std::shared_ptr<const Dataset> dataset_;
  Augmentation augmentation_;
  std::size_t images_;
  std::vector<std::array<std::int64_t, 3>> extents_;  // of the images, by those of the data set
  std::vector<double> border_;                        // of real numbers, by channel
};

}  // namespace

std::string Augmentation::text() const {
  if (crop && flip) return "crop,flip";
  return crop ? "crop" : (flip ? "flip" : "none");
}

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> dataset, const Augmentation& augmentation) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "the data set \"" + dataset->name() + "\" " + why +
                                                 ", so its images cannot be augmented by " + augmentation.text());
  };
  const std::vector<TensorSpec> tensors = dataset->tensors();
  std::size_t images = tensors.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    if (tensor.name == "images" && tensor.content == Content::real) {
      images = i;
    } else if (tensor.content != Content::integer || tensor.elements() != 1) {
      refuse("has a tensor \"" + tensor.name + "\", which is not one label of a whole image");
    }
  }
  if (images == tensors.size()) refuse("has no tensor \"images\" of real numbers");
  return std::make_shared<AugmentedDataset>(std::move(dataset), augmentation, images);
}

}  // namespace lockstep::data
