// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds patience{10};   // how long to wait for the lock
constexpr std::size_t room_bytes = 64 * 1024;  // space that a new table may need beyond the present one

[[noreturn]] void fail(const char* what, const std::string& path, const std::string& reason) {
  const bool reads = std::string_view(what) == "read";
  throw Error(ErrorCode::io, std::string("cannot ") + what + " '" + echo(path, 400) + "': " + reason +
                                 (reads ? "" : "; choose a file in a folder that can be written and has room"));
}

std::string reason() { return std::generic_category().message(errno); }

/// A new file beside another one. It is removed at the end, unless it has replaced the other one.
class NextFile {
 public:
  explicit NextFile(const std::string& path) : of_(path) {
    for (int number = 0; descriptor_ < 0; ++number) {
      path_ = path + ".tmp-" + std::to_string(getpid()) + '-' + std::to_string(number);
      descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) fail("write", of_, reason());
    }
  }
  ~NextFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!path_.empty()) unlink(path_.c_str());
  }
  NextFile(const NextFile&) = delete;
  NextFile& operator=(const NextFile&) = delete;

  void write(std::string_view text) {
    if (!write_all(descriptor_, text) || fsync(descriptor_) != 0) fail("write", of_, reason());
  }
  void take_place() {
    struct stat present {};
    if (stat(of_.c_str(), &present) == 0) (void)fchmod(descriptor_, present.st_mode & 07777U);
    if (::close(std::exchange(descriptor_, -1)) != 0 || std::rename(path_.c_str(), of_.c_str()) != 0) {
      fail("write", of_, reason());
    }
    path_.clear();
  }

 private:
  std::string of_;
  std::string path_;
  int descriptor_ = -1;
};

/// Holds the lock of a folder, or continues without it after a time limit.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  /// Writes the folder to disk, so that the new name of the file is there too.
  void sync() const { (void)fsync(folder_.get()); }

 private:
  Descriptor folder_;
};

fs::path folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

}  // namespace

std::string why_no_folder(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    return errno == ENOENT || errno == ENOTDIR ? "does not exist" : "cannot be read: " + reason();
  if (!S_ISDIR(status.st_mode)) return "is not a folder";
  return access(path.c_str(), X_OK) == 0 ? "" : "cannot be read: " + reason();
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string read_text(const std::string& path, std::size_t most) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path, reason());
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, reason());
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > most) fail("read", path, "it is longer than " + std::to_string(most) + " bytes");
  }
}

SharedTextFile::SharedTextFile(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  path_ = error ? path : target.string();
  const fs::file_status status = fs::status(path_, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fail("write", path, fs::is_directory(status) ? "it is a folder" : "it is not an ordinary file");
  }
  const std::size_t present = fs::exists(status) ? fs::file_size(path_, error) : 0;
  NextFile(path_).write(std::string(present + room_bytes, '\n'));
}

std::optional<std::string> SharedTextFile::read() const {
  std::error_code error;
  if (!fs::exists(path_, error)) return std::nullopt;
  return read_text(path_);
}

void SharedTextFile::update(const std::function<std::string(const std::optional<std::string>& present)>& change) const {
  const FolderLock lock(folder_of(path_));
  NextFile next(path_);
  next.write(change(read()));
  next.take_place();
  lock.sync();
}

}  // namespace lockstep
