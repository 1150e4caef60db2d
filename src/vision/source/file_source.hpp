// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "vision/source/source.hpp"

namespace lockstep::vision {

/// A sample whose picture is a file of its own.
struct FileSample {
  std::string path;        ///< relative to the folder of the data, or absolute, as the user's files say it
  std::int64_t bytes = 0;  ///< its size when it was listed
  Annotation annotation;
};

/// The class of each value of a pixel in files of masks; `not_a_class` for values that no file may have.
using MaskClasses = std::array<std::uint16_t, 256>;
inline constexpr std::uint16_t not_a_class = 256;
/// Returns the classes of masks whose values are classes or `left_out_pixel`.
MaskClasses classes_as_values(std::size_t classes);

/// Reads a file of a mask: the indices of a palette, or one channel of gray.
/// @param bytes  memory that is used again
/// @throws as Source::read_mask, but for the values
void decode_mask(const std::filesystem::path& path, std::vector<std::byte>& bytes, Image& mask);

/// Samples whose pictures are files of their own.
class FileSource final : public Source {
 public:
  /// @param folder        what the paths of samples are relative to
  /// @param category_ids  as Source::category_ids
  /// @param mask_classes  of the files of masks, if there are any
  FileSource(std::string format, std::filesystem::path folder, std::vector<std::string> class_names,
             std::vector<FileSample> samples, std::vector<std::int64_t> category_ids = {},
             const MaskClasses& mask_classes = {})
      : format_(std::move(format)),
        folder_(std::move(folder)),
        class_names_(std::move(class_names)),
        samples_(std::move(samples)),
        category_ids_(std::move(category_ids)),
        mask_classes_(mask_classes) {}

  [[nodiscard]] std::string format() const override { return format_; }
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] const std::vector<std::int64_t>& category_ids() const override { return category_ids_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override { return at(sample).annotation; }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return (folder_ / at(sample).path).string(); }
  [[nodiscard]] std::string relative_place(std::int64_t sample) const override { return at(sample).path; }
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t sample) const override { return at(sample).bytes; }
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override;
  void read_mask(std::int64_t sample, std::vector<std::byte>& bytes, Image& mask) const override;

 private:
  [[nodiscard]] const FileSample& at(std::int64_t sample) const { return samples_[static_cast<std::size_t>(sample)]; }

  std::string format_;
  std::filesystem::path folder_;
  std::vector<std::string> class_names_;
  std::vector<FileSample> samples_;
  std::vector<std::int64_t> category_ids_;
  MaskClasses mask_classes_;
};

}  // namespace lockstep::vision
