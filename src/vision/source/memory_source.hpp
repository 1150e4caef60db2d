// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/images.hpp"
#include "vision/source/source.hpp"

namespace lockstep::vision {

/// A file with the number of its first picture in its part.
struct PixelFile {
  std::int64_t first = 0;
  std::filesystem::path path;
};

/// Pictures of one size that are held in memory, channel by channel, from files of pixels or drawn.
class MemorySource final : public Source {
 public:
  /// @param annotations  of all pictures; empty: they have the labels of the images
  /// @param files        where the pictures are from, in their order; empty: nowhere
  MemorySource(data::Images images, std::vector<std::string> class_names, std::vector<Annotation> annotations,
               std::vector<PixelFile> files);

  [[nodiscard]] std::string format() const override { return images_.name; }
  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override {
    return annotations_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::string place(std::int64_t sample) const override;
  [[nodiscard]] std::string relative_place(std::int64_t sample) const override;
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override;
  void decode(std::int64_t sample, std::span<const std::byte> bytes, const DecodeOptions& options,
              Image& picture) const override;

 private:
  [[nodiscard]] std::string place_of(std::int64_t sample, bool is_relative) const;

  data::Images images_;
  std::vector<std::string> class_names_;
  std::vector<Annotation> annotations_;
  std::vector<PixelFile> files_;
};

}  // namespace lockstep::vision
