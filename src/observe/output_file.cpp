// SPDX-License-Identifier: Apache-2.0
#include "observe/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.hpp"

namespace lockstep::observe {

namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorCode::io, "cannot write " + path + ": " + std::strerror(errno));
}

/// Whether the file ends within a line, for instance because a disk was full or a process was killed.
bool ends_in_a_line(const std::string& path, int descriptor) {
  struct stat file {};
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size == 0) return false;
  const int reader = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char last = '\n';
  if (reader < 0) return false;
  (void)!pread(reader, &last, 1, file.st_size - 1);
  close(reader);
  return last != '\n';
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, Mode mode)
    : path_(path.string()),
      descriptor_(
          open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::append ? O_APPEND : O_TRUNC), 0666)) {
  if (descriptor_ < 0) fail(path_);
  if (mode != Mode::append || !ends_in_a_line(path_, descriptor_)) return;
  (void)!::write(descriptor_, "\n", 1);  // if this fails, the later writes fail too and report it
}

OutputFile::~OutputFile() { close(descriptor_); }

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace lockstep::observe
