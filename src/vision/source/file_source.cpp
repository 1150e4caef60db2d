// SPDX-License-Identifier: Apache-2.0
#include "vision/source/file_source.hpp"

#include <algorithm>

#include "lockstep/base/error.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {

MaskClasses classes_as_values(std::size_t classes) {
  MaskClasses all;
  all.fill(not_a_class);
  for (std::size_t value = 0; value < std::min<std::size_t>(classes, left_out_pixel); ++value)
    all[value] = static_cast<std::uint16_t>(value);
  all[left_out_pixel] = left_out_pixel;
  return all;
}

void decode_mask(const std::filesystem::path& path, std::vector<std::byte>& bytes, Image& mask) {
  read_file(path, bytes);
  try {
    if (format_of(bytes) != PictureFormat::png)
      throw Error(ErrorCode::corrupt, "a mask is a PNG, and this is " + std::string(name(format_of(bytes))));
    decode(bytes, {.channels = 0, .palette_indices = true}, mask);
    if (mask.channels != 1)
      throw Error(ErrorCode::corrupt, "a mask has one channel or a palette, and this has colors; convert it");
  } catch (const Error& error) {
    throw Error(error.code(), shown(path) + ": " + error.message());
  }
}

void FileSource::read(std::int64_t sample, std::vector<std::byte>& bytes) const {
  read_file(folder_ / at(sample).path, bytes);
}

void FileSource::read_mask(std::int64_t sample, std::vector<std::byte>& bytes, Image& mask) const {
  const std::string& file = at(sample).annotation.mask_file;
  if (file.empty()) return mask.resize(0, 0, 1);
  decode_mask(folder_ / file, bytes, mask);
  for (std::uint8_t& pixel : mask.pixels) {
    const std::uint16_t of_pixel = mask_classes_[pixel];
    if (of_pixel == not_a_class)
      throw Error(ErrorCode::corrupt, shown(folder_ / file) + " has a pixel of the value " + std::to_string(pixel) +
                                          ", which is none of the " + std::to_string(class_names_.size()) +
                                          " classes; " + std::to_string(left_out_pixel) + " leaves a pixel out");
    pixel = static_cast<std::uint8_t>(of_pixel);
  }
}

}  // namespace lockstep::vision
