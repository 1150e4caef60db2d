// SPDX-License-Identifier: Apache-2.0
#include "vision/source/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

std::string text_of_errno() { return std::generic_category().message(errno); }

/// Says why a file that `stat` or `open` has refused cannot be read, by errno.
std::string why_refused(const fs::path& path) {
  if (errno != ENOENT && errno != ENOTDIR) return "cannot be read: " + text_of_errno();
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? "does not exist" : "is a symbolic link to " + shown(target) + ", which does not exist";
}

FileState state_of_status(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return {.why_not = "is a folder", .is_folder = true};
  if (!S_ISREG(status.st_mode)) return {.why_not = "is not an ordinary file"};
  return {.bytes = status.st_size};
}

[[noreturn]] void fail_to_read(const fs::path& path, const std::string& why) {
  throw Error(ErrorCode::io, shown(path) + ' ' + why);
}

std::string lower_suffix(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  std::string suffix(dot == std::string_view::npos ? "" : name.substr(dot));
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return suffix;
}

/// Goes through folders and remembers those that it is in, so that a link to one of them is found.
class Walk {
 public:
  explicit Walk(fs::path root) : root_(std::move(root)) { enter(""); }

  std::vector<FoundFile> sorted() && {
    // torchvision compares the paths of folders first: the files of "a" come before those of "a/b".
    const auto parts = [](const FoundFile& file) {
      const std::size_t slash = file.path.rfind('/');
      const std::string_view path = file.path;
      return slash == std::string::npos ? std::pair(std::string_view(), path)
                                        : std::pair(path.substr(0, slash), path.substr(slash + 1));
    };
    std::sort(found_.begin(), found_.end(),
              [&](const FoundFile& a, const FoundFile& b) { return parts(a) < parts(b); });
    return std::move(found_);
  }

 private:
  void enter(const std::string& relative) {
    const fs::path folder = relative.empty() ? root_ : root_ / relative;
    struct stat status {};
    if (stat(folder.c_str(), &status) != 0) fail_to_read(folder, why_refused(folder));
    const std::pair<dev_t, ino_t> identity(status.st_dev, status.st_ino);
    if (std::find(inside_.begin(), inside_.end(), identity) != inside_.end())
      fail_to_read(folder, "is a link to a folder that contains it; remove it");
    inside_.push_back(identity);
    std::error_code error;
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error))
      add(*entry, relative);
    if (error) fail_to_read(folder, "cannot be read: " + error.message());
    inside_.pop_back();
  }

  void add(const fs::directory_entry& entry, const std::string& folder) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) return;
    std::string relative = folder.empty() ? name : folder + '/' + name;
    std::error_code ignored;  // an entry that cannot be looked up is no folder, and its state says why
    if (entry.is_directory(ignored)) return enter(relative);
    found_.push_back({std::move(relative), state_of(entry.path())});
  }

  fs::path root_;
  std::vector<std::pair<dev_t, ino_t>> inside_;
  std::vector<FoundFile> found_;
};

}  // namespace

std::string shown(const fs::path& path) {
  constexpr std::size_t most = 400;
  return echo(path.string(), most);
}

std::string normal(const std::string& path) {
  // Most paths are in that form, and finding that out is a hundred times as fast as bringing them into it.
  const bool is_normal = path.find("/.") == std::string::npos && path.find("//") == std::string::npos &&
                         !path.starts_with("./") && !path.starts_with("../");
  return is_normal ? path : fs::path(path).lexically_normal().string();
}

FileState state_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {.why_not = why_refused(path)};
  return state_of_status(status);
}

void read_file(const fs::path& path, std::vector<std::byte>& bytes) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) fail_to_read(path, why_refused(path));
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail_to_read(path, "cannot be read: " + text_of_errno());
  const FileState state = state_of_status(status);
  if (!state.why_not.empty()) fail_to_read(path, state.why_not);
  if (state.bytes > most_bytes)
    fail_to_read(path, "has " + std::to_string(state.bytes) + " bytes, more than the 1 GiB that a picture may have");
  bytes.resize(static_cast<std::size_t>(state.bytes));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_read(path, "cannot be read: " + text_of_errno());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
}

std::string without_suffix(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  const std::size_t slash = path.rfind('/');
  return dot == std::string::npos || (slash != std::string::npos && dot < slash) ? path : path.substr(0, dot);
}

bool has_picture_suffix(std::string_view name) {
  const std::string suffix = lower_suffix(name);
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png";
}

std::string_view refused_kind(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kinds = {{{".webp", "WebP"},
                                                                                           {".bmp", "BMP"},
                                                                                           {".tif", "TIFF"},
                                                                                           {".tiff", "TIFF"},
                                                                                           {".heic", "HEIC"},
                                                                                           {".heif", "HEIC"},
                                                                                           {".gif", "GIF"},
                                                                                           {".avif", "AVIF"},
                                                                                           {".jxl", "JPEG XL"},
                                                                                           {".jp2", "JPEG 2000"},
                                                                                           {".ppm", "PNM"},
                                                                                           {".pgm", "PNM"}}};
  const std::string suffix = lower_suffix(name);
  const auto* kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& row) { return row.first == suffix; });
  return kind == kinds.end() ? "" : kind->second;
}

std::vector<FoundFile> files_below(const fs::path& folder) { return Walk(folder).sorted(); }

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!name.starts_with('.') && entry->is_directory(ignored)) names.push_back(name);
  }
  if (error) fail_to_read(folder, "cannot be read: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lockstep::vision
