// SPDX-License-Identifier: Apache-2.0
// Folders of classes, as torchvision's ImageFolder reads them.
#include <algorithm>
#include <system_error>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> validation_folders = {"val", "test"};

/// Whether a folder holds a picture, readable or refused, in itself or below. @cost ends at the first one
bool holds_pictures(const fs::path& folder) {
  constexpr int most_depth = 8;  // a link may lead back
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || entry.depth() >= most_depth) entry.disable_recursion_pending();
    if (!name.starts_with('.') && (has_picture_suffix(name) || !refused_kind(name).empty())) return true;
  }
  return false;
}

bool holds_json(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".json") return true;
  return false;
}

/// Returns why the folders in a folder are no classes; empty if they look like classes.
std::string why_no_classes(const fs::path& folder) {
  const std::vector<std::string> names = folders_in(folder);
  const auto has = [&](std::string_view name) { return std::binary_search(names.begin(), names.end(), name); };
  for (const char* other : {"labels", "masks", "annotations", "Annotations"})
    for (const char* images : {"images", "JPEGImages"})
      if (has(images) && has(other))
        return "its folders " + std::string(images) + " and " + other +
               " look like pictures with annotations, not classes";
  if (has("annotations") && holds_json(folder / "annotations"))
    return "its folder annotations looks like that of COCO, not like a class";
  std::size_t classes = 0;
  for (std::size_t i = 0; i < names.size() && classes < 2; ++i) classes += holds_pictures(folder / names[i]) ? 1 : 0;
  if (classes >= 2) return "";
  return classes == 1 ? "only one of its folders holds pictures" : "it has no folders with pictures";
}

/// The folders of the parts; empty where there is none.
struct PartFolders {
  fs::path train;
  fs::path val;
};

PartFolders parts_in(const SourceOptions& options) {
  const fs::path& data = options.data;
  const auto with_folders = [&](const char* name) {
    return is_folder(data / name) && !folders_in(data / name).empty() ? data / name : fs::path();
  };
  PartFolders parts{.train = with_folders("train")};
  for (const char* name : validation_folders)
    if (parts.val.empty()) parts.val = with_folders(name);
  if (parts.train.empty() && parts.val.empty()) (evaluates_whole(options) ? parts.val : parts.train) = data;
  return parts;
}

/// The labels of class names, in the order of a list.
class Labels {
 public:
  explicit Labels(const std::vector<std::string>& names) : names_(names.begin(), names.end()) {}

  /// @throws Error{corrupt} for a folder that is no class
  [[nodiscard]] std::int32_t of(const std::string& name, const fs::path& part) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) return static_cast<std::int32_t>(found - names_.begin());
    throw Error(ErrorCode::corrupt, "the folder " + shown(part / name) + " is none of the " +
                                        std::to_string(names_.size()) + " classes" + did_you_mean(name, names_) +
                                        "; rename or remove it, or add the class to the training part");
  }

 private:
  std::vector<std::string_view> names_;
};

void list_class(const fs::path& part, const std::string& name, std::int32_t label, Listing& listing) {
  for (FoundFile& file : files_below(part / name)) {
    std::string path = name + '/' + file.path;
    if (const std::string_view kind = refused_kind(path); !kind.empty()) {
      listing.notes.refused[std::string(kind)].add(path);
    } else if (has_picture_suffix(path)) {
      if (!file.state.why_not.empty()) {
        listing.notes.without_picture.add(path + " (" + file.state.why_not + ')');
        continue;
      }
      listing.samples.push_back({std::move(path), file.state.bytes, {.label = label}});
    }
  }
}

/// Lists the pictures of the classes. Pictures beside the classes have no annotation.
Listing list_part(const fs::path& part, const std::vector<std::string>& class_names) {
  const Labels labels(class_names);
  Listing listing{.folder = part};
  for (const std::string& name : folders_in(part)) list_class(part, name, labels.of(name, part), listing);
  std::error_code error;
  for (fs::directory_iterator entry(part, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!name.starts_with('.') && has_picture_suffix(name) && !entry->is_directory(ignored))
      listing.notes.without_annotation.add(name);
  }
  return listing;
}

}  // namespace

std::string why_not_folder(const fs::path& data) {
  if (!is_folder(data)) return "it is not a folder";
  std::string why_no_part;
  for (const char* name : {"train", "val", "test"}) {
    if (!is_folder(data / name) || folders_in(data / name).empty()) continue;
    const std::string why = why_no_classes(data / name);
    if (why.empty()) return "";
    if (why_no_part.empty()) why_no_part = "of its folder " + std::string(name) + ": " + why;
  }
  return why_no_part.empty() ? why_no_classes(data) : why_no_part;
}

Parts open_folder(const SourceOptions& options) {
  PartFolders folders = parts_in(options);
  if (!options.val.empty()) {
    if (!is_folder(options.val))
      throw Error(ErrorCode::io, "the validation part " + shown(options.val) + ' ' +
                                     (state_of(options.val).why_not.empty() ? "is not a folder of classes"
                                                                            : state_of(options.val).why_not));
    folders.val = options.val;
  }
  const fs::path& named_by = folders.train.empty() ? folders.val : folders.train;
  std::vector<std::string> names = folders_in(named_by);
  std::optional<Listing> train;
  std::optional<Listing> val;
  if (!folders.train.empty()) train = list_part(folders.train, names);
  if (!folders.val.empty()) val = list_part(folders.val, names);
  return make_parts("folder", std::move(names), std::move(train), std::move(val), options);
}

}  // namespace lockstep::vision
