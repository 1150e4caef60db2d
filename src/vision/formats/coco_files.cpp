// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/coco_files.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr const char* coco_folder = "annotations";
constexpr std::array<const char*, 1> train_exports = {"train/_annotations.coco.json"};
constexpr std::array<const char*, 3> val_exports = {"valid/_annotations.coco.json", "val/_annotations.coco.json",
                                                    "test/_annotations.coco.json"};

bool contains(const fs::path& file, std::string_view word) {
  return file.stem().string().find(word) != std::string::npos;
}
bool is_for_training(const fs::path& file) { return contains(file, "train"); }
bool is_for_validation(const fs::path& file) { return contains(file, "val") && !is_for_training(file); }
bool is_for_test(const fs::path& file) { return contains(file, "test") && !is_for_training(file); }
bool is_instances(const fs::path& file) { return file.filename().string().starts_with("instances"); }

/// Returns the annotations with boxes in a folder, sorted.
std::vector<fs::path> candidates_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".json" && !entry->path().filename().string().starts_with('.'))
      files.push_back(entry->path());
  if (std::any_of(files.begin(), files.end(), is_instances))
    std::erase_if(files, [](const fs::path& file) { return !is_instances(file); });
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns the only file of a kind; an empty path if there are none or several, and then `why_not` says which.
fs::path only_one(const std::vector<fs::path>& files, bool (*is_kind)(const fs::path&), std::string& why_not) {
  std::vector<fs::path> found;
  std::copy_if(files.begin(), files.end(), std::back_inserter(found), is_kind);
  if (found.size() > 1)
    why_not = "its folder annotations has several files of a part, " + shown(found[0].filename()) + " and " +
              shown(found[1].filename()) + "; name one by --data and one by --val";
  return found.size() == 1 ? found.front() : fs::path();
}

/// Divides the annotations of a folder into parts by their names.
CocoFiles parts_of(const std::vector<fs::path>& candidates) {
  CocoFiles files;
  const bool has_parts = std::any_of(candidates.begin(), candidates.end(), [](const fs::path& file) {
    return is_for_training(file) || is_for_validation(file) || is_for_test(file);
  });
  if (!has_parts && candidates.size() == 1) {
    files.train = candidates.front();
    files.has_parts = false;
  } else if (has_parts) {
    files.train = only_one(candidates, is_for_training, files.why_not);
    files.val = only_one(candidates, is_for_validation, files.why_not);
    if (files.val.empty() && files.why_not.empty()) files.val = only_one(candidates, is_for_test, files.why_not);
  } else if (!candidates.empty()) {
    files.why_not = "the files in its folder annotations have no names with train or val";
  }
  for (fs::path* file : {&files.train, &files.val})
    if (!file->empty() && !is_coco_file(*file)) {
      files.why_not = "its file " + shown(file->filename()) + " is no JSON with images, annotations and categories";
      file->clear();
    }
  return files;
}

}  // namespace

bool is_coco_file(const fs::path& file) {
  if (file.extension() != ".json" || !state_of(file).why_not.empty()) return false;
  std::string head(std::size_t{64} << 10, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  const auto has = [&](const char* key) { return head.find(key) != std::string::npos; };
  const std::size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string::npos && head[first] == '{' &&
         (has("\"images\"") || has("\"annotations\"") || has("\"categories\""));
}

CocoFiles coco_files_in(const fs::path& folder) {
  CocoFiles files = parts_of(candidates_in(folder / coco_folder));
  if (files.train.empty() && files.val.empty() && files.why_not.empty()) {
    files.train = first_of(folder, train_exports);
    files.val = first_of(folder, val_exports);
  }
  if (!files.why_not.empty()) return {.why_not = files.why_not};
  if (files.train.empty() && files.val.empty()) files.why_not = "it has no file annotations/*.json";
  return files;
}

fs::path named_coco_part(const fs::path& val) {
  std::error_code ignored;
  if (!fs::is_directory(val, ignored)) return val;
  const CocoFiles files = coco_files_in(val);
  if (!files.val.empty()) return files.val;
  if (!files.train.empty()) return files.train;
  if (fs::path own = val / "_annotations.coco.json"; fs::exists(own, ignored)) return own;
  throw Error(ErrorCode::io, "the validation part " + shown(val) + " has no annotations: " + files.why_not);
}

fs::path root_of(const fs::path& annotations) {
  const fs::path folder = annotations.parent_path();
  const bool is_below = folder.filename() == coco_folder || annotations.filename() == "_annotations.coco.json";
  return is_below ? folder.parent_path() : folder;
}

fs::path folder_of_images(const fs::path& annotations, const fs::path& root, const std::vector<CocoImage>& images) {
  const std::string stem = annotations.stem().string();
  const std::string part = stem.substr(stem.find('_') + 1);  // all of it without a '_'
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    std::error_code ignored;
    const bool is_new = std::find(folders.begin(), folders.end(), folder) == folders.end();
    if (is_new && fs::is_directory(folder, ignored)) folders.push_back(folder);
  };
  for (const std::string& name : {part, stem})
    for (const fs::path& parent : {root, root / "images"}) add(parent / name);
  for (const char* name : {"train", "valid", "val", "test"})
    if (contains(annotations, name))
      for (const fs::path& parent : {root, root / "images"}) add(parent / name);
  for (const fs::path& folder : {annotations.parent_path(), root / "images", root}) add(folder);
  for (const CocoImage& image : images)
    for (const fs::path& folder : folders)
      if (std::error_code ignored; fs::exists(folder / image.file, ignored)) return folder;
  if (images.empty()) return root;
  std::string tried;
  for (const fs::path& folder : folders) tried += (tried.empty() ? "" : ", ") + shown(folder);
  throw Error(ErrorCode::io, "none of the " + std::to_string(images.size()) + " pictures of " + shown(annotations) +
                                 ", such as " + echo(images.front().file) + ", exists; tried the folders " + tried);
}

}  // namespace lockstep::vision
