// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vision/source/files.hpp"
#include "vision/source/survey.hpp"

/// Where the pictures and labels of a YOLO lie. All paths are absolute unless it is said otherwise.
namespace lockstep::vision {

/// Returns an absolute path without "..".
std::filesystem::path absolute_of(const std::filesystem::path& path);

/// Returns the folders that the paths of a data.yaml may be relative to, in the order in which they are tried: those
/// that `path` may mean, which is written as seen from the file, from the program that the file came with, or from the
/// folder of all data sets; and at last the folder of the file.
/// @param path  as the file says it; empty: it says none
std::vector<std::filesystem::path> bases_of(const std::filesystem::path& yaml, const std::string& path);

/// A folder or list of pictures, with the folder that it was found from.
struct FoundEntry {
  std::filesystem::path path;  ///< empty: there is none
  std::filesystem::path base;  ///< that folder; if a relative entry leads out of it, the one above that holds both
  std::vector<std::filesystem::path> tried;  ///< in this order
};

/// Looks for an entry in the folders, in each of them also without a leading "../".
FoundEntry find_entry(const std::vector<std::filesystem::path>& bases, const std::string& entry);

/// A picture, by the path to it.
struct FoundPicture {
  std::filesystem::path path;
  FileState state;
};

/// Returns the pictures of a folder and the folders below it, or of a list: a path on each line, relative to the folder
/// of the list if it begins with "./", and else to the first folder that has one of the first pictures: that of the
/// list, or one of `bases`. Names that are those of no picture are left out of folders. Pictures of kinds that are not
/// read are noted.
/// @throws Error{io} if the folder or list cannot be read
std::vector<FoundPicture> pictures_of(const FoundEntry& entry, const std::vector<std::filesystem::path>& bases,
                                      PartNotes& notes);

/// Returns the file with the labels of a picture: the last "/images/" of its path becomes "/labels/", and its suffix
/// ".txt".
std::filesystem::path label_file_of(const std::filesystem::path& picture);

/// Returns a path as seen from a folder if it lies in it, and else as it is.
std::string seen_from(const std::filesystem::path& folder, const std::filesystem::path& path);

}  // namespace lockstep::vision
