// SPDX-License-Identifier: Apache-2.0
// Pascal VOC: pictures with boxes in XML.
#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <unordered_map>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/box_rules.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/formats/voc_annotation.hpp"
#include "vision/source/files.hpp"
#include "vision/source/picture_header.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr const char* pictures_in = "JPEGImages";
constexpr const char* annotations_in = "Annotations";
constexpr const char* splits_in = "ImageSets/Main";
constexpr std::array<const char*, 2> train_splits = {"train.txt", "trainval.txt"};
constexpr std::array<const char*, 2> val_splits = {"val.txt", "test.txt"};
constexpr std::array<const char*, 1> test_split = {"test.txt"};
constexpr std::array<const char*, 3> voc_label_files = {"labels.txt", "label_list.txt", "classes.txt"};

/// The objects of a sample, whose labels are set once the classes are known.
struct VocSample {
  FileSample sample;
  std::string annotation_file;
  std::vector<VocObject> objects;
};

/// A part of a data set in this form, before the classes are known.
struct VocPart {
  fs::path root;
  std::vector<VocSample> samples;
  PartNotes notes;
};

/// The pictures of a folder by their names without suffix, which annotations and splits use.
class Pictures {
 public:
  explicit Pictures(const fs::path& root) {
    std::vector<FoundFile> files = files_below(root / pictures_in);
    for (const bool takes_refused : {false, true})  // of two files of one name, that which can be read counts
      for (const FoundFile& file : files)
        if (takes_refused ? !refused_kind(file.path).empty() : has_picture_suffix(file.path))
          by_name_.try_emplace(without_suffix(file.path), file);
  }
  [[nodiscard]] const FoundFile* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const std::map<std::string, FoundFile>& all() const { return by_name_; }

 private:
  std::map<std::string, FoundFile> by_name_;
};

/// Returns the names of the samples of a part: the lines of its split file.
std::vector<std::string> names_in(const fs::path& split, const Pictures& pictures) {
  const std::string text = read_lines_of(split);
  std::vector<std::string> names;
  TextLines lines(text, split.string());
  for (TextLine line; lines.next(line);) {
    std::string name(line.text);
    if (pictures.find(name) == nullptr && has_picture_suffix(name)) name = without_suffix(name);
    names.push_back(std::move(name));
  }
  return names;
}

void add_voc_objects(VocSample& sample, std::vector<VocObject> objects, PartNotes& notes) {
  const std::string file = sample.annotation_file;
  for (VocObject& object : objects) {
    const auto where = [&] { return file + ':' + std::to_string(object.line); };
    if (!object.has_area) notes.degenerate_boxes.add(where());
    if (!object.has_area || !keeps(object.box, sample.sample.annotation, notes, where)) continue;
    const auto is_same = [&](const VocObject& other) {
      const auto corners = [](const Box& box) { return std::array{box.left, box.top, box.right, box.bottom}; };
      return other.name == object.name && corners(other.box) == corners(object.box);
    };
    if (std::any_of(sample.objects.begin(), sample.objects.end(), is_same)) notes.duplicate_boxes.add(where());
    sample.objects.push_back(std::move(object));
  }
}

void add_named(const std::string& name, const Pictures& pictures, VocPart& part) {
  const std::string annotation_file = std::string(annotations_in) + '/' + name + ".xml";
  const FoundFile* picture = pictures.find(name);
  if (picture == nullptr || !picture->state.why_not.empty()) return part.notes.without_picture.add(annotation_file);
  const std::string path = std::string(pictures_in) + '/' + picture->path;
  if (const std::string_view kind = refused_kind(path); !kind.empty())
    return part.notes.refused[std::string(kind)].add(path);
  const fs::path file = part.root / annotation_file;
  std::error_code ignored;
  if (fs::status(file, ignored).type() == fs::file_type::not_found) return part.notes.without_annotation.add(path);
  VocSample sample{.sample = {.path = path, .bytes = picture->state.bytes}, .annotation_file = annotation_file};
  if (const auto header = header_of(part.root / path)) {
    sample.sample.annotation.width = header->width;
    sample.sample.annotation.height = header->height;
  }
  add_voc_objects(sample, parse_voc(read_text(file.string()), file.string()), part.notes);
  part.samples.push_back(std::move(sample));
}

/// The split files of the parts; empty where there is none.
struct Splits {
  fs::path train;
  fs::path val;
};

/// trainval.txt has the samples of val.txt, so test.txt goes with it.
Splits splits_of(const fs::path& root) {
  const fs::path folder = root / splits_in;
  const fs::path train = first_of(folder, train_splits);
  return {train, train.filename() == "trainval.txt" ? first_of(folder, test_split) : first_of(folder, val_splits)};
}

VocPart read_split(const fs::path& root, const fs::path& split, const Pictures& pictures) {
  VocPart part{.root = root};
  for (const std::string& name : names_in(split, pictures)) add_named(name, pictures, part);
  return part;
}

/// Reads a folder without split files: every annotation is a sample.
VocPart read_all(const fs::path& root, const Pictures& pictures) {
  VocPart part{.root = root};
  std::set<std::string> annotated;
  for (const FoundFile& file : files_below(root / annotations_in))
    if (file.path.ends_with(".xml")) annotated.insert(without_suffix(file.path));
  for (const std::string& name : annotated) add_named(name, pictures, part);
  for (const auto& [name, file] : pictures.all())
    if (!annotated.contains(name)) part.notes.without_annotation.add(std::string(pictures_in) + '/' + file.path);
  return part;
}

/// Returns the part to evaluate that the user has named: a split file, or another folder of this form.
VocPart read_named(const fs::path& val, const fs::path& root, const Pictures& pictures) {
  std::error_code ignored;
  if (!fs::is_directory(val, ignored)) return read_split(root, val, pictures);
  if (const std::string why = why_not_voc(val); !why.empty())
    throw Error(ErrorCode::io, "the validation part " + shown(val) + " is not of the format voc: " + why);
  const fs::path split = first_of(val / splits_in, val_splits);
  const Pictures others(val);
  return split.empty() ? read_all(val, others) : read_split(val, split, others);
}

std::vector<std::string> names_of_objects(const VocPart& part) {
  std::set<std::string> names;
  for (const VocSample& sample : part.samples)
    for (const VocObject& object : sample.objects) names.insert(object.name);
  return {names.begin(), names.end()};
}

std::vector<std::string> voc_class_names(const SourceOptions& options, const VocPart& named_by) {
  const fs::path file = first_of(options.data, voc_label_files);
  return file.empty() ? names_of_objects(named_by) : parse_class_names(read_lines_of(file), file.string());
}

Listing labeled(VocPart part, const std::vector<std::string>& class_names) {
  std::unordered_map<std::string_view, std::int32_t> labels;
  for (const std::string& name : class_names) labels.emplace(name, static_cast<std::int32_t>(labels.size()));
  Listing listing{.folder = part.root, .notes = std::move(part.notes)};
  for (VocSample& sample : part.samples) {
    for (VocObject& object : sample.objects) {
      const auto label = labels.find(object.name);
      if (label == labels.end())
        refuse_line((part.root / sample.annotation_file).string(), object.line,
                    "'" + echo(object.name, 40) + "' is none of the " + std::to_string(class_names.size()) +
                        " classes; name all classes in labels.txt, one on each line");
      object.box.label = label->second;
      sample.sample.annotation.boxes.push_back(object.box);
    }
    listing.samples.push_back(std::move(sample.sample));
  }
  return listing;
}

}  // namespace

std::string why_not_voc(const fs::path& data) {
  std::error_code ignored;
  for (const char* folder : {pictures_in, annotations_in})
    if (!fs::is_directory(data / folder, ignored)) return "it has no folder " + std::string(folder);
  return "";
}

Parts open_voc(const SourceOptions& options) {
  const fs::path& root = options.data;
  const Splits splits = splits_of(root);
  std::optional<VocPart> train;
  std::optional<VocPart> val;
  const Pictures pictures(root);
  if (!splits.train.empty()) train = read_split(root, splits.train, pictures);
  if (splits.train.empty() && splits.val.empty()) (evaluates_whole(options) ? val : train) = read_all(root, pictures);
  if (!options.val.empty()) {
    val = read_named(options.val, root, pictures);
  } else if (!splits.val.empty()) {
    val = read_split(root, splits.val, pictures);
  }
  std::vector<std::string> names = voc_class_names(options, train ? *train : *val);
  std::optional<Listing> train_listing;
  std::optional<Listing> val_listing;
  if (train) train_listing = labeled(std::move(*train), names);
  if (val) val_listing = labeled(std::move(*val), names);
  return make_parts("voc", std::move(names), std::move(train_listing), std::move(val_listing), options);
}

}  // namespace lockstep::vision
