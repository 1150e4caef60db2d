// SPDX-License-Identifier: Apache-2.0
// YOLO: a data.yaml, or folders of pictures and labels, with a text file of boxes for each picture.
#include <algorithm>
#include <system_error>
#include <utility>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/box_rules.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/data_yaml.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/formats/yolo_labels.hpp"
#include "vision/formats/yolo_paths.hpp"
#include "vision/source/files.hpp"
#include "vision/source/picture_header.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 5> yolo_class_files = {"classes.txt", "labels/classes.txt", "obj.names", "labels.txt",
                                                         "label_list.txt"};
constexpr std::array<const char*, 2> yolo_train_folders = {"images/train", "images/train2017"};
constexpr std::array<const char*, 4> yolo_val_folders = {"images/val", "images/valid", "images/val2017", "images/test"};

constexpr std::size_t most_yaml_bytes = std::size_t{1} << 20;  // yaml-cpp takes hundreds of times as much memory

bool has_yaml_suffix(const fs::path& path) { return path.extension() == ".yaml" || path.extension() == ".yml"; }

/// Whether a file has lines that begin with the keys of a data.yaml. It is parsed only where it is opened.
bool looks_like_data_yaml(const fs::path& file) {
  if (!has_yaml_suffix(file) || !state_of(file).why_not.empty()) return false;
  try {
    const std::string text = '\n' + read_text(file.string(), most_yaml_bytes);
    const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
    return (has("\nnames:") || has("\nnc:")) && (has("\ntrain:") || has("\nval:") || has("\ntest:"));
  } catch (const Error&) {
    return false;
  }
}

/// Returns the files of a folder that look like a data.yaml, sorted.
std::vector<fs::path> data_yamls_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (looks_like_data_yaml(entry->path())) found.push_back(entry->path());
  std::sort(found.begin(), found.end());
  return found;
}

/// What is to be read, however the user says it.
struct YoloData {
  fs::path from;                ///< the file or folder that says it
  std::vector<fs::path> bases;  ///< what entries are relative to
  std::vector<std::string> train;
  std::vector<std::string> val;
  std::vector<std::string> names;
};

std::vector<std::string> names_beside(const fs::path& folder) {
  const fs::path file = first_of(folder, yolo_class_files);
  return file.empty() ? std::vector<std::string>() : parse_class_names(read_lines_of(file), file.string());
}

YoloData read_yaml(const fs::path& named) {
  const fs::path file = absolute_of(named);
  DataYaml yaml = parse_data_yaml(read_text(file.string(), most_yaml_bytes), file.string());
  YoloData data{.from = file,
                .bases = bases_of(file, yaml.path),
                .train = std::move(yaml.train),
                .val = yaml.val.empty() ? std::move(yaml.test) : std::move(yaml.val),
                .names = std::move(yaml.names)};
  if (data.names.empty()) data.names = names_beside(file.parent_path());
  if (data.names.empty())
    throw Error(ErrorCode::corrupt, shown(file) + " has no names of classes; add them as names: [cat, dog]");
  if (data.train.empty() && data.val.empty())
    throw Error(ErrorCode::corrupt, shown(file) + " names no pictures; add them as train: and val:");
  return data;
}

/// Reads folders without a data.yaml.
YoloData read_folders(const SourceOptions& options) {
  const fs::path root = absolute_of(options.data);
  YoloData data{.from = root, .bases = {root}, .names = names_beside(root)};
  const auto add = [&](std::vector<std::string>& part, const auto& folders) {
    const fs::path folder = first_of(root, folders);
    if (!folder.empty()) part.push_back(folder.lexically_relative(root).string());
  };
  add(data.train, yolo_train_folders);
  add(data.val, yolo_val_folders);
  if (data.train.empty() && data.val.empty()) (evaluates_whole(options) ? data.val : data.train) = {"images"};
  return data;
}

/// Lets the validation part be what the user has named: a folder, a list, or another data.yaml.
void replace_val(const fs::path& val, YoloData& data, YoloData& val_data) {
  val_data = data;
  if (has_yaml_suffix(val)) {
    val_data = read_yaml(val);
    if (val_data.val.empty()) val_data.val = val_data.train;
    if (val_data.names != data.names)
      throw Error(ErrorCode::invalid_argument, "the classes of " + shown(val) + " are not those of " +
                                                   shown(data.from) + "; give both files the same names");
    return;
  }
  val_data.from = "--val";
  val_data.val = {absolute_of(val).string()};
}

/// @throws Error{io} that says where an entry was looked for
[[noreturn]] void fail_to_find(const YoloData& data, const std::string& entry, const FoundEntry& found) {
  std::string tried;
  for (const fs::path& path : found.tried) tried += (tried.empty() ? "" : ", ") + shown(path);
  throw Error(ErrorCode::io, "the folder or list " + echo(entry) + " of " + shown(data.from) +
                                 " does not exist; tried " + tried + "; correct it, or the path of the data");
}

/// Reads the labels of a picture, in fractions, as boxes in pixels.
void add_labels(const YoloLabels& labels, const std::string& file, FileSample& sample, PartNotes& notes) {
  const auto where = [&](std::int64_t line) { return file + ':' + std::to_string(line); };
  Annotation& annotation = sample.annotation;
  for (const std::int64_t line : labels.repeated) notes.repeated_boxes.add(where(line));
  for (const YoloBox& of : labels.boxes) {
    const auto edge = [](double center, double extent, double side, int pixels) {
      return static_cast<float>((center + side * extent / 2) * pixels);
    };
    const Box box{.label = of.label,
                  .left = edge(of.x, of.width, -1, annotation.width),
                  .top = edge(of.y, of.height, -1, annotation.height),
                  .right = edge(of.x, of.width, 1, annotation.width),
                  .bottom = edge(of.y, of.height, 1, annotation.height)};
    if (keeps(box, annotation, notes, [&] { return where(of.line); })) annotation.boxes.push_back(box);
  }
}

/// Adds a picture with its labels, if it has any, to a listing.
void add_picture(const FoundPicture& picture, std::size_t classes, Listing& listing) {
  FileSample sample{.path = seen_from(listing.folder, picture.path), .bytes = picture.state.bytes};
  const fs::path file = label_file_of(picture.path);
  std::error_code ignored;
  YoloLabels labels;
  if (fs::status(file, ignored).type() == fs::file_type::not_found) {
    listing.notes.without_labels.add(sample.path);
  } else {
    labels = parse_yolo_labels(read_text(file.string()), file.string(), classes);
  }
  if (const std::optional<PictureInfo> header = header_of(picture.path)) {
    sample.annotation.width = header->width;
    sample.annotation.height = header->height;
    add_labels(labels, seen_from(listing.folder, file), sample, listing.notes);
  } else {
    listing.notes.without_header.add(sample.path);
  }
  listing.samples.push_back(std::move(sample));
}

/// @throws Error{invalid_argument} if none of the pictures has labels, for which a wrong folder is the usual reason
void require_labels(const Listing& listing, const std::vector<FoundPicture>& pictures) {
  if (listing.samples.empty() || listing.notes.without_labels.count < std::ssize(listing.samples)) return;
  const fs::path& first = pictures.front().path;
  throw Error(ErrorCode::invalid_argument,
              "none of the " + std::to_string(listing.samples.size()) + " pictures such as " + shown(first) +
                  " has a file of labels; that picture's would be " + shown(label_file_of(first)));
}

/// Lists a part, sorted by path. @return nothing if its entries are missing although the run does not need them
std::optional<Listing> list_pictures(const YoloData& data, const std::vector<std::string>& entries, bool is_needed) {
  std::optional<Listing> listing;
  std::vector<FoundPicture> pictures;
  for (const std::string& entry : entries) {
    const FoundEntry found = find_entry(data.bases, entry);
    if (found.path.empty() && !is_needed) return std::nullopt;
    if (found.path.empty()) fail_to_find(data, entry, found);
    if (!listing) listing = Listing{.folder = found.base};
    std::vector<FoundPicture> more = pictures_of(found, data.bases, listing->notes);
    pictures.insert(pictures.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  std::sort(pictures.begin(), pictures.end(), [&](const FoundPicture& a, const FoundPicture& b) {
    return seen_from(listing->folder, a.path) < seen_from(listing->folder, b.path);
  });
  for (const FoundPicture& picture : pictures) add_picture(picture, data.names.size(), *listing);
  if (listing) require_labels(*listing, pictures);
  return listing;
}

std::string why_no_folders(const fs::path& data) {
  std::error_code ignored;
  for (const char* folder : {"images", "labels"})
    if (!fs::is_directory(data / folder, ignored)) return "it has no data.yaml and no folder " + std::string(folder);
  return first_of(data, yolo_class_files).empty() ? "it has no data.yaml and no file classes.txt" : "";
}

}  // namespace

std::string why_not_yolo(const fs::path& data) {
  std::error_code ignored;
  if (!fs::is_directory(data, ignored)) return has_yaml_suffix(data) ? "" : "it is no folder and no .yaml file";
  const std::vector<fs::path> files = data_yamls_in(data);
  if (files.size() == 1) return "";
  if (files.empty()) return why_no_folders(data);
  return "it has " + std::to_string(files.size()) + " files of this kind, such as " + shown(files[0].filename()) +
         " and " + shown(files[1].filename()) + "; name one of them";
}

Parts open_yolo(const SourceOptions& options) {
  std::error_code ignored;
  const bool is_folder_of_user = fs::is_directory(options.data, ignored);
  const std::vector<fs::path> files = is_folder_of_user ? data_yamls_in(options.data) : std::vector{options.data};
  YoloData data = files.size() == 1 ? read_yaml(files.front()) : read_folders(options);
  YoloData val_data = data;
  if (!options.val.empty()) replace_val(options.val, data, val_data);
  std::optional<Listing> val = list_pictures(val_data, val_data.val, true);
  std::optional<Listing> train = list_pictures(data, data.train, !options.evaluates_only || !val);
  return make_parts("yolo", std::move(data.names), std::move(train), std::move(val), options);
}

}  // namespace lockstep::vision
