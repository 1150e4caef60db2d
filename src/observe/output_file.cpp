// SPDX-License-Identifier: Apache-2.0
#include "observe/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::observe {

namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorCode::io, "cannot write " + echo(path, 400) + ": " + std::strerror(errno));
}

/// Whether the file ends within a line, for instance because a disk was full or a process was killed.
bool ends_in_a_line(const std::string& path, int descriptor) {
  struct stat file {};
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size == 0) return false;
  const Descriptor reader(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char last = '\n';
  if (!reader.open()) return false;
  (void)!pread(reader.get(), &last, 1, file.st_size - 1);
  return last != '\n';
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, Mode mode)
    : path_(path.string()),
      descriptor_(
          open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::append ? O_APPEND : O_TRUNC), 0666)) {
  if (!descriptor_.open()) fail(path_);
  if (mode != Mode::append || !ends_in_a_line(path_, descriptor_.get())) return;
  (void)write_all(descriptor_.get(), "\n");  // if this fails, the later writes fail too and report it
}

void OutputFile::write(std::string_view text) {
  if (!write_all(descriptor_.get(), text)) fail(path_);
}

}  // namespace lockstep::observe
