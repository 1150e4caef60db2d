// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Files of pictures as users have them. Their names are bytes in no particular encoding.
namespace lockstep::vision {

/// What is known of a file without opening it.
struct FileState {
  std::string why_not;     ///< why it cannot be read: "does not exist", "is a folder"; empty if it is an ordinary file
  std::int64_t bytes = 0;  ///< its size
  bool is_folder = false;
};

/// Follows symbolic links. A link whose target is missing is told from a file that does not exist.
FileState state_of(const std::filesystem::path& path);
inline bool is_folder(const std::filesystem::path& path) { return state_of(path).is_folder; }

/// Reads a whole file.
/// @param bytes  overwritten; its memory is used again
/// @throws Error{io} that names the path and why: missing, a folder, no permission, larger than 1 GiB
void read_file(const std::filesystem::path& path, std::vector<std::byte>& bytes);

/// Returns a path without the suffix of its file name.
std::string without_suffix(const std::string& path);

/// Whether a name ends like that of a file that can be decoded: .jpg, .jpeg or .png, in any case.
bool has_picture_suffix(std::string_view name);
/// Returns the kind of picture that a name's suffix stands for and that lockstep does not read, such as "WebP"; empty
/// for other names.
std::string_view refused_kind(std::string_view name);

/// A file below a folder.
struct FoundFile {
  std::string path;  ///< relative to the folder, with '/' between its parts
  FileState state;
};

/// Returns the files in a folder and in all folders below it, sorted as torchvision's ImageFolder does: by folder, then
/// by name, both byte by byte. Symbolic links are followed. Files and folders whose names begin with a dot are left
/// out.
/// @throws Error{io} if a folder cannot be read, or contains itself by a link
/// @cost a stat for each file
std::vector<FoundFile> files_below(const std::filesystem::path& folder);

/// Returns the names of the folders in a folder, sorted byte by byte. Symbolic links are followed, and names that begin
/// with a dot are left out. @throws Error{io} if the folder cannot be read
std::vector<std::string> folders_in(const std::filesystem::path& folder);

/// Returns a path without "./", "x/../" and doubled slashes, by which two names of a file are often the same.
std::string normal(const std::string& path);

/// Returns a path as messages show it: on one line, and short enough for one.
std::string shown(const std::filesystem::path& path);

}  // namespace lockstep::vision
