// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/yolo_paths.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "vision/formats/text_lines.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view upwards = "../";

void add_once(std::vector<fs::path>& paths, const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  if (std::find(paths.begin(), paths.end(), plain) == paths.end()) paths.push_back(plain);
}

/// The folders that the lines of a list may be relative to.
fs::path folder_of_lines(const fs::path& list, const std::vector<std::string>& lines,
                         const std::vector<fs::path>& bases) {
  constexpr std::size_t most_tried = 100;
  std::vector<fs::path> folders = {list.parent_path()};
  for (const fs::path& base : bases) add_once(folders, base);
  add_once(folders, absolute_of("."));
  std::error_code ignored;
  for (std::size_t i = 0; i < std::min(lines.size(), most_tried); ++i)
    for (const fs::path& folder : folders)
      if (fs::exists(folder / lines[i], ignored)) return folder;
  return folders.front();
}

std::vector<FoundPicture> pictures_of_list(const fs::path& list, const std::vector<fs::path>& bases) {
  const std::string text = read_lines_of(list);
  std::vector<std::string> names;
  TextLines lines(text, list.string());
  for (TextLine line; lines.next(line);) names.emplace_back(line.text);
  const fs::path folder = folder_of_lines(list, names, bases);
  std::vector<FoundPicture> pictures;
  for (const std::string& name : names) {
    const fs::path path = (name.starts_with("./") ? list.parent_path() : folder) / name;
    pictures.push_back({path.lexically_normal(), state_of(path)});
  }
  return pictures;
}

std::vector<FoundPicture> pictures_of_folder(const fs::path& folder) {
  std::vector<FoundPicture> pictures;
  for (FoundFile& file : files_below(folder))
    if (has_picture_suffix(file.path) || !refused_kind(file.path).empty())
      pictures.push_back({folder / file.path, std::move(file.state)});
  return pictures;
}

}  // namespace

fs::path absolute_of(const fs::path& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal();
}

std::vector<fs::path> bases_of(const fs::path& yaml, const std::string& path) {
  const fs::path here = yaml.parent_path();
  const fs::path program = absolute_of(".");
  std::vector<fs::path> bases;
  if (path.empty()) {
    for (const fs::path& base : {here, here / "..", program}) add_once(bases, base);
    return bases;
  }
  for (const fs::path& base : {here, here / "..", program, program / "datasets", program / "../datasets"})
    add_once(bases, base / path);
  if (path.starts_with(upwards))
    for (const fs::path& base : {here, program}) add_once(bases, base / path.substr(upwards.size()));
  add_once(bases, here);
  return bases;
}

FoundEntry find_entry(const std::vector<fs::path>& bases, const std::string& entry) {
  FoundEntry found;
  std::vector<std::string> names = {entry};
  if (entry.starts_with(upwards)) names.push_back(entry.substr(upwards.size()));
  for (const fs::path& base : bases)
    for (const std::string& name : names) {
      const fs::path path = (base / name).lexically_normal();
      if (std::find(found.tried.begin(), found.tried.end(), path) != found.tried.end()) continue;
      found.tried.push_back(path);
      std::error_code ignored;
      if (!fs::exists(path, ignored)) continue;
      found.path = path;
      found.base = base;
      const auto lies_outside = [&] { return *path.lexically_relative(found.base).begin() == ".."; };
      while (!fs::path(entry).is_absolute() && lies_outside()) found.base = (found.base / "..").lexically_normal();
      return found;
    }
  return found;
}

std::vector<FoundPicture> pictures_of(const FoundEntry& entry, const std::vector<fs::path>& bases, PartNotes& notes) {
  std::error_code ignored;
  std::vector<FoundPicture> pictures =
      fs::is_directory(entry.path, ignored) ? pictures_of_folder(entry.path) : pictures_of_list(entry.path, bases);
  std::erase_if(pictures, [&](const FoundPicture& picture) {
    const std::string place = seen_from(entry.base, picture.path);
    const std::string_view kind = refused_kind(place);
    if (!kind.empty()) notes.refused[std::string(kind)].add(place);
    if (kind.empty() && !picture.state.why_not.empty())
      notes.without_picture.add(place + " (" + picture.state.why_not + ')');
    return !kind.empty() || !picture.state.why_not.empty();
  });
  return pictures;
}

fs::path label_file_of(const fs::path& picture) {
  constexpr std::string_view images = "/images/";
  std::string path = picture.string();
  if (const std::size_t at = path.rfind(images); at != std::string::npos) path.replace(at, images.size(), "/labels/");
  return fs::path(path).replace_extension(".txt");
}

std::string seen_from(const fs::path& folder, const fs::path& path) {
  const fs::path relative = path.lexically_relative(folder);
  const bool is_inside = !relative.empty() && *relative.begin() != "..";
  return is_inside ? relative.string() : path.string();
}

}  // namespace lockstep::vision
