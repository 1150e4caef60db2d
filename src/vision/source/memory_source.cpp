// SPDX-License-Identifier: Apache-2.0
#include "vision/source/memory_source.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "vision/image/color.hpp"

namespace lockstep::vision {

MemorySource::MemorySource(data::Images images, std::vector<std::string> class_names,
                           std::vector<Annotation> annotations, std::vector<PixelFile> files)
    : images_(std::move(images)),
      class_names_(std::move(class_names)),
      annotations_(std::move(annotations)),
      files_(std::move(files)) {
  if (!annotations_.empty()) return;
  for (const std::int32_t label : images_.labels) annotations_.push_back({.label = label});
}

std::string MemorySource::place_of(std::int64_t sample, bool is_relative) const {
  const auto after = std::upper_bound(files_.begin(), files_.end(), sample,
                                      [](std::int64_t number, const PixelFile& file) { return number < file.first; });
  if (after == files_.begin()) return images_.name + ", image " + std::to_string(sample);
  const PixelFile& file = *std::prev(after);
  return (is_relative ? file.path.filename() : file.path).string() + ", image " + std::to_string(sample - file.first);
}

std::string MemorySource::place(std::int64_t sample) const { return place_of(sample, false); }

std::string MemorySource::relative_place(std::int64_t sample) const { return place_of(sample, true); }

void MemorySource::read(std::int64_t sample, std::vector<std::byte>& bytes) const {
  const auto image = std::as_bytes(images_.image(sample));
  bytes.assign(image.begin(), image.end());
}

void MemorySource::decode(std::int64_t /*sample*/, std::span<const std::byte> bytes, const DecodeOptions& options,
                          Image& picture) const {
  const auto stored = static_cast<std::size_t>(images_.shape.channels);
  const auto plane = static_cast<std::size_t>(images_.shape.pixels());
  const bool repeats_gray = stored == 1 && options.channels == 3;
  const std::size_t channels = repeats_gray ? 3 : stored;
  picture.resize(static_cast<int>(images_.shape.width), static_cast<int>(images_.shape.height),
                 static_cast<int>(channels));
  const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (channels == 1) {
    std::copy(from, from + plane, picture.pixels.begin());
    return;
  }
  for (std::size_t channel = 0; channel < channels; ++channel)
    for (std::size_t i = 0; i < plane; ++i)
      picture.pixels[i * channels + channel] = from[(repeats_gray ? 0 : channel * plane) + i];
  if (options.channels == 1) to_gray(picture);
}

}  // namespace lockstep::vision
