// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vision/formats/sources.hpp"
#include "vision/source/file_source.hpp"
#include "vision/source/memory_source.hpp"

namespace lockstep::vision {

/// A part of the data as its format gives it. No source: the data have no such part.
struct Part {
  std::shared_ptr<const Source> source;
  PartNotes notes;
};

struct Parts {
  Part train;
  Part val;
};

/// A format of data. To add one, add its functions below and its row in formats.cpp.
struct DataFormat {
  std::string_view name;
  std::string_view looks_for;  ///< what it recognizes data by, for messages
  /// Returns what is missing at a path, "it has no folder Annotations"; empty if it has this format.
  std::string (*why_not)(const std::filesystem::path& data);
  Parts (*open)(const SourceOptions& options);
};

std::string why_not_mnist(const std::filesystem::path& data);
std::string why_not_cifar10(const std::filesystem::path& data);
std::string why_not_voc(const std::filesystem::path& data);
std::string why_not_yolo(const std::filesystem::path& data);
std::string why_not_coco(const std::filesystem::path& data);
std::string why_not_masks(const std::filesystem::path& data);
std::string why_not_rec_gt(const std::filesystem::path& data);
std::string why_not_list(const std::filesystem::path& data);
std::string why_not_lmdb(const std::filesystem::path& data);
std::string why_not_folder(const std::filesystem::path& data);
Parts open_mnist(const SourceOptions& options);
Parts open_cifar10(const SourceOptions& options);
Parts open_voc(const SourceOptions& options);
Parts open_yolo(const SourceOptions& options);
Parts open_coco(const SourceOptions& options);
Parts open_masks(const SourceOptions& options);
Parts open_rec_gt(const SourceOptions& options);
Parts open_list(const SourceOptions& options);
Parts open_lmdb_data(const SourceOptions& options);
Parts open_folder(const SourceOptions& options);

/// Returns a part whose pictures are held in memory; none if there are no images.
Part memory_part(data::Images images, const std::vector<std::string>& class_names, std::vector<PixelFile> files);

/// @throws Error{invalid_argument} if the options name a validation part, for formats whose files say which it is
void require_own_parts(const SourceOptions& options, std::string_view format);

/// The samples of a part, as a format of files lists them.
struct Listing {
  std::filesystem::path folder;  ///< what the paths of samples are relative to
  std::vector<FileSample> samples;
  PartNotes notes;
};

/// Makes the parts of what a format of files has listed: divides the training samples where the options ask for that,
/// class by class, and notes samples that are listed twice. Which part a sample gets into follows from the seed and its
/// relative path, so that the order of the lists does not matter. Boxes of crowds are left out of the training part.
/// @param category_ids  as Source::category_ids
/// @param mask_classes  of the files of masks, if there are any
/// @throws Error{invalid_argument} if the options do not fit
Parts make_parts(std::string_view format, std::vector<std::string> class_names, std::optional<Listing> train,
                 std::optional<Listing> val, const SourceOptions& options,
                 const std::vector<std::int64_t>& category_ids = {}, const MaskClasses& mask_classes = {});

/// Whether data that have no parts are to be evaluated as a whole.
inline bool evaluates_whole(const SourceOptions& options) {
  return options.evaluates_only && options.val.empty() && options.val_split == 0;
}

/// Returns the folder that the paths of a list are relative to: that of the list, or else the folder of the data, by
/// the first picture that lies in one of them.
/// @param lines  with a path each
template <typename Line>
std::filesystem::path folder_of_list(const std::filesystem::path& list, const std::vector<Line>& lines,
                                     const std::filesystem::path& data) {
  constexpr std::size_t most_tried = 100;
  std::error_code ignored;
  std::filesystem::path here = list.parent_path();
  const std::filesystem::path there = std::filesystem::is_directory(data, ignored) ? data : data.parent_path();
  for (std::size_t i = 0; i < std::min(lines.size(), most_tried); ++i)
    for (const std::filesystem::path& folder : {here, there})
      if (std::filesystem::exists(folder / lines[i].path, ignored)) return folder;
  return here;
}

/// Returns the first of these files or folders that exists in a folder; an empty path if none does.
template <std::size_t N>
std::filesystem::path first_of(const std::filesystem::path& folder, const std::array<const char*, N>& names) {
  for (const char* name : names) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  return {};
}

}  // namespace lockstep::vision
