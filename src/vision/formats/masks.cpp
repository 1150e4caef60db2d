// SPDX-License-Identifier: Apache-2.0
// Pictures with a file for the class of each pixel: lists of pairs as PaddleSeg has them, folders of pictures and of
// masks, Cityscapes, and the masks of Pascal VOC.
#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/mask_list.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> mask_train_lists = {"train.txt", "train_list.txt"};
constexpr std::array<const char*, 4> mask_val_lists = {"val.txt", "val_list.txt", "test.txt", "test_list.txt"};
constexpr std::array<const char*, 3> mask_label_files = {"labels.txt", "label_list.txt", "classes.txt"};
constexpr std::array<const char*, 2> mask_val_folders = {"val", "test"};

constexpr std::array<const char*, 19> cityscapes_classes = {
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation", "terrain",
    "sky",  "person",   "rider",    "car",  "truck", "bus",  "train",         "motorcycle",   "bicycle"};
/// The ids of these classes in the files that end in labelIds.
constexpr std::array<std::uint8_t, 19> cityscapes_ids = {7,  8,  11, 12, 13, 17, 19, 20, 21, 22,
                                                         23, 24, 25, 26, 27, 28, 31, 32, 33};

/// The pairs of a part.
struct MaskPart {
  fs::path folder;
  std::vector<MaskPair> pairs;
  Finding without_mask;
};

/// The parts of a layout; without pairs there is no such part.
struct MaskParts {
  MaskPart train;
  MaskPart val;
  std::vector<std::string> class_names = {};          ///< of the layout; empty: files or pixels say them
  std::optional<MaskClasses> classes_of_values = {};  ///< of the layout; nothing: values are classes
};

/// Returns why a file is no list of pairs; empty if its first line is one.
std::string why_no_pairs(const fs::path& file) {
  if (const FileState state = state_of(file); !state.why_not.empty()) return state.why_not;
  try {
    const std::string text = read_lines_of(file);
    TextLines lines(text, file.string());
    TextLine line;
    if (!lines.next(line)) return "has no lines";
    (void)parse_mask_list(line.text, file.string());
  } catch (const Error&) {
    return "has a first line that is no picture and mask";
  }
  return "";
}

MaskPart part_of_list(const fs::path& list, const fs::path& data) {
  MaskPart part{.folder = list.parent_path(), .pairs = parse_mask_list(read_lines_of(list), list.string())};
  std::error_code ignored;  // paths are relative to the folder of the list, or to that of the data
  const fs::path there = is_folder(data) ? data : data.parent_path();
  if (!part.pairs.empty() && !fs::exists(part.folder / part.pairs.front().picture, ignored)) part.folder = there;
  return part;
}

/// Pairs the pictures below a folder with masks. @param mask_of  the path of the mask, relative to `folder` as well
template <typename MaskOf>
MaskPart part_of_folder(const fs::path& folder, const std::string& pictures, const MaskOf& mask_of) {
  MaskPart part{.folder = folder};
  for (const FoundFile& file : files_below(folder / pictures)) {
    if (!has_picture_suffix(file.path)) continue;
    const std::string mask = mask_of(file.path);
    if (mask.empty()) {
      part.without_mask.add(pictures + '/' + file.path);
    } else {
      part.pairs.push_back({pictures + '/' + file.path, mask});
    }
  }
  return part;
}

/// Pictures below `images` and masks below `masks`, with the same names.
MaskPart part_of_images(const fs::path& data, const std::string& part) {
  const std::string masks = "masks" + part;
  return part_of_folder(data, "images" + part, [&](const std::string& picture) {
    std::string mask = masks + '/' + without_suffix(picture) + ".png";
    return state_of(data / mask).why_not.empty() ? mask : std::string();
  });
}

MaskPart part_of_cityscapes(const fs::path& data, const std::string& part, const std::string& kind) {
  constexpr std::string_view ending = "_leftImg8bit.png";
  return part_of_folder(data, "leftImg8bit/" + part, [&](const std::string& picture) {
    if (!picture.ends_with(ending)) return std::string();
    std::string mask =
        "gtFine/" + part + '/' + picture.substr(0, picture.size() - ending.size()) + "_gtFine_" + kind + ".png";
    return state_of(data / mask).why_not.empty() ? mask : std::string();
  });
}

MaskParts cityscapes(const fs::path& data) {
  MaskParts parts{.class_names = {cityscapes_classes.begin(), cityscapes_classes.end()}};
  std::string kind = "labelTrainIds";
  const auto read = [&](const std::string& part) {
    return is_folder(data / "leftImg8bit" / part) ? part_of_cityscapes(data, part, kind) : MaskPart{};
  };
  parts.train = read("train");
  if (parts.train.pairs.empty()) {
    kind = "labelIds";
    parts.train = read("train");
    MaskClasses classes;
    classes.fill(left_out_pixel);
    for (std::size_t label = 0; label < cityscapes_ids.size(); ++label)
      classes[cityscapes_ids[label]] = static_cast<std::uint16_t>(label);
    parts.classes_of_values = classes;
  }
  parts.val = read("val");
  return parts;
}

/// The split files of Pascal VOC for segmentation have names without a suffix.
MaskPart part_of_voc(const fs::path& data, const char* split) {
  MaskPart part{.folder = data};
  const fs::path file = data / "ImageSets/Segmentation" / split;
  if (!state_of(file).why_not.empty()) return part;
  const std::string text = read_lines_of(file);
  TextLines lines(text, file.string());
  for (TextLine line; lines.next(line);) {
    const std::string name(line.text);
    part.pairs.push_back({"JPEGImages/" + name + ".jpg", "SegmentationClass/" + name + ".png"});
  }
  return part;
}

bool is_cityscapes(const fs::path& data) { return is_folder(data / "leftImg8bit") && is_folder(data / "gtFine"); }
bool is_voc(const fs::path& data) { return is_folder(data / "SegmentationClass") && is_folder(data / "JPEGImages"); }
bool has_masks(const fs::path& data) { return is_folder(data / "images") && is_folder(data / "masks"); }

MaskParts parts_of_folders(const SourceOptions& options) {
  const fs::path& data = options.data;
  if (is_cityscapes(data)) return cityscapes(data);
  if (is_voc(data)) return {.train = part_of_voc(data, "train.txt"), .val = part_of_voc(data, "val.txt")};
  MaskParts parts;
  const bool is_divided = is_folder(data / "images/train") || !first_of(data / "images", mask_val_folders).empty();
  if (!is_divided) {
    (evaluates_whole(options) ? parts.val : parts.train) = part_of_images(data, "");
    return parts;
  }
  if (is_folder(data / "images/train")) parts.train = part_of_images(data, "/train");
  if (const fs::path val = first_of(data / "images", mask_val_folders); !val.empty())
    parts.val = part_of_images(data, '/' + val.filename().string());
  return parts;
}

MaskParts parts_of(const SourceOptions& options) {
  const fs::path& data = options.data;
  MaskParts parts;
  fs::path train;
  fs::path val = options.val;
  if (is_folder(data)) {
    train = first_of(data, mask_train_lists);
    if (val.empty()) val = first_of(data, mask_val_lists);
    if (train.empty() && val.empty()) parts = parts_of_folders(options);
    if (train.empty() && !options.val.empty() && is_folder(options.val)) parts.val = part_of_images(options.val, "");
  } else {
    (evaluates_whole(options) ? val : train) = data;
  }
  if (!train.empty()) parts.train = part_of_list(train, data);
  if (!val.empty() && !is_folder(val)) parts.val = part_of_list(val, data);
  return parts;
}

Listing listing_of(MaskPart part) {
  Listing listing{.folder = std::move(part.folder)};
  listing.notes.without_annotation = part.without_mask;
  for (MaskPair& pair : part.pairs) {
    if (const std::string_view kind = refused_kind(pair.picture); !kind.empty()) {
      listing.notes.refused[std::string(kind)].add(pair.picture);
      continue;
    }
    const FileState picture = state_of(listing.folder / pair.picture);
    const FileState mask = state_of(listing.folder / pair.mask);
    if (!picture.why_not.empty()) {
      listing.notes.without_picture.add(pair.picture + " (" + picture.why_not + ')');
    } else if (!mask.why_not.empty()) {
      listing.notes.without_annotation.add(pair.mask + " (" + mask.why_not + ')');
    } else {
      FileSample sample{.path = std::move(pair.picture), .bytes = picture.bytes + mask.bytes};
      sample.annotation.mask_file = std::move(pair.mask);
      listing.samples.push_back(std::move(sample));
    }
  }
  return listing;
}

/// Returns the names "0", "1", … up to the largest value of the masks.
std::vector<std::string> names_of_values(const Listing& listing) {
  int largest = -1;
  std::vector<std::byte> bytes;
  Image mask;
  for (const FileSample& sample : listing.samples) {
    decode_mask(listing.folder / sample.annotation.mask_file, bytes, mask);
    for (const std::uint8_t pixel : mask.pixels)
      if (pixel != left_out_pixel) largest = std::max<int>(largest, pixel);
  }
  std::vector<std::string> names;
  for (int value = 0; value <= largest; ++value) names.push_back(std::to_string(value));
  return names;
}

std::vector<std::string> mask_class_names(const SourceOptions& options, const MaskParts& parts,
                                          const Listing& named_by) {
  const fs::path folder = is_folder(options.data) ? options.data : options.data.parent_path();
  if (const fs::path file = first_of(folder, mask_label_files); !file.empty())
    return parse_class_names(read_lines_of(file), file.string());
  return parts.class_names.empty() ? names_of_values(named_by) : parts.class_names;
}

}  // namespace

std::string why_not_masks(const fs::path& data) {
  if (!is_folder(data)) {
    const std::string why = why_no_pairs(data);
    return why.empty() ? "" : "it " + why;
  }
  if (is_cityscapes(data) || is_voc(data) || has_masks(data)) return "";
  for (const fs::path& list : {first_of(data, mask_train_lists), first_of(data, mask_val_lists)})
    if (!list.empty()) {
      const std::string why = why_no_pairs(list);
      return why.empty() ? "" : "its file " + list.filename().string() + ' ' + why;
    }
  return "it has no list such as train.txt, and no folders images and masks";
}

Parts open_masks(const SourceOptions& options) {
  MaskParts parts = parts_of(options);
  std::optional<Listing> train;
  std::optional<Listing> val;
  const auto is_there = [](const MaskPart& part) { return !part.pairs.empty() || part.without_mask.count > 0; };
  if (is_there(parts.train)) train = listing_of(std::move(parts.train));
  if (is_there(parts.val)) val = listing_of(std::move(parts.val));
  if (!train && !val) throw Error(ErrorCode::invalid_argument, shown(options.data) + " has no picture with a mask");
  std::vector<std::string> names = mask_class_names(options, parts, train ? *train : *val);
  const MaskClasses classes = parts.classes_of_values.value_or(classes_as_values(names.size()));
  return make_parts("masks", std::move(names), std::move(train), std::move(val), options, {}, classes);
}

}  // namespace lockstep::vision
