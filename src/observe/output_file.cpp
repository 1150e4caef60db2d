// SPDX-License-Identifier: Apache-2.0
#include "observe/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.hpp"

namespace lockstep::observe {

namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorCode::io, "cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, Mode mode)
    : path_(path.string()),
      descriptor_(
          open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::append ? O_APPEND : O_TRUNC), 0666)) {
  if (descriptor_ < 0) fail(path_);
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
