// SPDX-License-Identifier: Apache-2.0
// COCO: a JSON of all boxes of a part, and a folder of pictures.
#include <algorithm>
#include <fstream>
#include <set>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/box_rules.hpp"
#include "vision/formats/coco_files.hpp"
#include "vision/formats/coco_json.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/yolo_paths.hpp"
#include "vision/source/files.hpp"
#include "vision/source/picture_header.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

/// Annotations, with the file that they come from.
struct CocoPart {
  fs::path file;
  CocoFile coco;
};

CocoPart read_part(const fs::path& file) {
  if (const FileState state = state_of(file); !state.why_not.empty())
    throw Error(ErrorCode::io, shown(file) + ' ' + state.why_not);
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(ErrorCode::io, shown(file) + " cannot be read");
  return {file, read_coco(in, file.string())};
}

/// The labels of categories: their places among the ids.
class CocoLabels {
 public:
  explicit CocoLabels(const CocoPart& named_by) : file_(named_by.file), categories_(named_by.coco.categories) {
    for (const CocoCategory& category : categories_)
      labels_.emplace(category.id, static_cast<std::int32_t>(labels_.size()));
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const CocoCategory& category : categories_) names.push_back(category.name);
    return names;
  }
  [[nodiscard]] std::vector<std::int64_t> ids() const {
    std::vector<std::int64_t> ids;
    for (const CocoCategory& category : categories_) ids.push_back(category.id);
    return ids;
  }

  /// @throws Error{corrupt} if the category of an object is none of these
  [[nodiscard]] std::int32_t of(const CocoObject& object, const fs::path& file) const {
    if (const auto label = labels_.find(object.category); label != labels_.end()) return label->second;
    throw Error(ErrorCode::corrupt, shown(file) + ": annotations[" + std::to_string(object.place) +
                                        "] has the category_id " + std::to_string(object.category) +
                                        ", which is none of the " + std::to_string(labels_.size()) + " categories of " +
                                        shown(file_) + "; add it there");
  }

  /// @throws Error{invalid_argument} if another part gives one of the ids another name
  void require_same_names(const CocoPart& other) const {
    for (const auto& [id, name] : other.coco.categories)
      if (const auto label = labels_.find(id); label != labels_.end())
        if (const std::string& here = categories_[static_cast<std::size_t>(label->second)].name; here != name)
          throw Error(ErrorCode::invalid_argument, "the category " + std::to_string(id) + " is '" + echo(here, 40) +
                                                       "' in " + shown(file_) + " and '" + echo(name, 40) + "' in " +
                                                       shown(other.file) + "; give both files the same categories");
  }

 private:
  fs::path file_;
  std::vector<CocoCategory> categories_;
  std::unordered_map<std::int64_t, std::int32_t> labels_;
};

/// Fills in the sizes that the annotations do not say.
void add_sizes(const fs::path& folder, std::vector<CocoImage>& images) {
  for (CocoImage& image : images) {
    if (image.width > 0 && image.height > 0) continue;
    if (!state_of(folder / image.file).why_not.empty()) continue;
    const auto header = header_of(folder / image.file);
    image.width = header ? header->width : 0;
    image.height = header ? header->height : 0;
  }
}

/// Counts the boxes of a picture that are equal to an earlier one.
void find_equal_boxes(const Annotation& annotation, const std::string& where, PartNotes& notes) {
  std::set<std::tuple<std::int32_t, float, float, float, float, bool>> seen;
  for (const Box& box : annotation.boxes)
    if (!seen.insert({box.label, box.left, box.top, box.right, box.bottom, box.is_crowd}).second)
      notes.duplicate_boxes.add(where);
}

/// Gives the objects to the samples. Objects of images that are not listed are left out, as pycocotools does.
void add_objects(const CocoPart& part, const CocoLabels& labels, std::vector<FileSample>& samples, PartNotes& notes) {
  const std::vector<CocoImage>& images = part.coco.images;
  for (const CocoObject& object : part.coco.objects) {
    const auto where = [&] {
      return part.file.filename().string() + ", annotations[" + std::to_string(object.place) + ']';
    };
    const std::int32_t label = labels.of(object, part.file);
    const auto image = std::lower_bound(images.begin(), images.end(), object.image,
                                        [](const CocoImage& a, std::int64_t id) { return a.id < id; });
    if (image == images.end() || image->id != object.image) {
      notes.without_picture.add(where());
      continue;
    }
    const Box box{.label = label,
                  .left = static_cast<float>(object.left),
                  .top = static_cast<float>(object.top),
                  .right = static_cast<float>(object.left + object.width),
                  .bottom = static_cast<float>(object.top + object.height),
                  .is_crowd = object.is_crowd,
                  .area = object.area};
    Annotation& annotation = samples[static_cast<std::size_t>(image - images.begin())].annotation;
    if (keeps(box, annotation, notes, where)) annotation.boxes.push_back(box);
  }
}

/// Lists the pictures by ascending id. @param root  what their paths are relative to
Listing list_images(CocoPart part, const fs::path& root, const CocoLabels& labels) {
  const fs::path folder = folder_of_images(part.file, root, part.coco.images);
  add_sizes(folder, part.coco.images);
  std::vector<FileSample> samples;
  for (const CocoImage& image : part.coco.images)
    samples.push_back({.path = seen_from(root, (folder / image.file).lexically_normal()),
                       .annotation = {.width = image.width, .height = image.height, .image_id = image.id}});
  Listing listing{.folder = root};
  add_objects(part, labels, samples, listing.notes);
  for (FileSample& sample : samples) {
    const FileState state = state_of(root / sample.path);
    if (const std::string_view kind = refused_kind(sample.path); !kind.empty()) {
      listing.notes.refused[std::string(kind)].add(sample.path);
    } else if (!state.why_not.empty()) {
      listing.notes.without_picture.add(sample.path + " (" + state.why_not + ')');
    } else {
      find_equal_boxes(sample.annotation, sample.path, listing.notes);
      sample.bytes = state.bytes;
      listing.samples.push_back(std::move(sample));
    }
  }
  return listing;
}

}  // namespace

std::string why_not_coco(const fs::path& data) {
  std::error_code ignored;
  if (!fs::is_directory(data, ignored)) return is_coco_file(data) ? "" : "it is no JSON of COCO";
  return coco_files_in(data).why_not;
}

Parts open_coco(const SourceOptions& options) {
  const fs::path data = absolute_of(options.data);
  std::error_code ignored;
  CocoFiles files =
      fs::is_directory(data, ignored) ? coco_files_in(data) : CocoFiles{.train = data, .has_parts = false};
  if (!files.has_parts && evaluates_whole(options)) std::swap(files.train, files.val);
  if (!options.val.empty()) files.val = named_coco_part(absolute_of(options.val));
  std::optional<CocoPart> train;
  std::optional<CocoPart> val;
  if (!files.train.empty()) train = read_part(files.train);
  if (!files.val.empty()) val = read_part(files.val);
  const CocoLabels labels(train ? *train : *val);
  if (train && val) labels.require_same_names(*val);
  std::optional<Listing> train_listing;
  std::optional<Listing> val_listing;
  if (train) train_listing = list_images(std::move(*train), root_of(files.train), labels);
  if (val) val_listing = list_images(std::move(*val), root_of(files.val), labels);
  return make_parts("coco", labels.names(), std::move(train_listing), std::move(val_listing), options, labels.ids());
}

}  // namespace lockstep::vision
