// SPDX-License-Identifier: Apache-2.0
#include "state/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <system_error>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

const char* remedy(int error) {
  switch (error) {
    case ENOSPC: return "free space on this file system, or choose a folder on another one";
    case EDQUOT: return "the quota is used up: free space, or choose a folder on another file system";
    case EFBIG: return "the file system or the process (ulimit -f) limits the size of files: raise the limit";
    case EROFS: return "this file system is read-only: choose a folder on another one";
    case EACCES:
    case EPERM: return "change the permissions, or choose another folder";
    case ENOTDIR:
    case EEXIST: return "something else has this name: remove it, or choose another folder";
    case EISDIR: return "give the path of a file in it";
    case ENOENT: return "check whether the path is right and whether something has removed it";
    default: return "check the file system, or choose a folder on another one";
  }
}

}  // namespace

void fail(const char* what, const fs::path& path, int error) {
  throw Error(ErrorCode::io, std::string("cannot ") + what + " '" + echo(path.string(), 400) +
                                 "': " + std::generic_category().message(error) + "; " + remedy(error));
}

File::File(fs::path path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

File File::open_to_read(const fs::path& path) {
  // Without O_NONBLOCK, a named pipe would be waited for.
  Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) fail("read", path, errno);
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io,
                "cannot read '" + echo(path.string(), 400) + "': it is not a regular file; give the path of one");
  }
  return {path, std::move(descriptor)};
}

File File::open_to_write(const fs::path& path) {
  Descriptor descriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (descriptor.get() < 0) fail("write", path, errno);
  return {path, std::move(descriptor)};
}

File File::create(const fs::path& path, Bytes size) {
  Descriptor descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor.get() < 0) fail("write", path, errno);
  // The library function posix_fallocate would write the file where the file system cannot reserve space.
  int failed = 0;
  do failed = size.value == 0 ? 0 : fallocate(descriptor.get(), 0, 0, size.value);
  while (failed != 0 && errno == EINTR);
  if (failed != 0 && errno != EOPNOTSUPP && errno != ENOSYS) fail("write", path, errno);
  if (failed != 0 && ftruncate(descriptor.get(), size.value) != 0) fail("write", path, errno);
  return {path, std::move(descriptor)};
}

Bytes File::size() const {
  struct stat status {};
  if (fstat(descriptor_.get(), &status) != 0) fail("read", path_, errno);
  return {status.st_size};
}

void File::read(std::span<std::byte> to, Bytes offset) const {
  while (!to.empty()) {
    const ssize_t got = pread(descriptor_.get(), to.data(), to.size(), offset.value);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path_, errno);
    if (got == 0) {
      throw Error(ErrorCode::corrupt, "'" + echo(path_.string(), 400) + "' ends at byte " +
                                          std::to_string(offset.value) + ", and " + std::to_string(to.size()) +
                                          " more should follow; use another copy of the file");
    }
    to = to.subspan(static_cast<std::size_t>(got));
    offset.value += got;
  }
}

void File::write(std::span<const std::byte> from, Bytes offset) const {
  while (!from.empty()) {
    const ssize_t written = pwrite(descriptor_.get(), from.data(), from.size(), offset.value);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    from = from.subspan(static_cast<std::size_t>(written));
    offset.value += written;
  }
}

void File::sync() const {
  if (fsync(descriptor_.get()) != 0) fail("write", path_, errno);
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) fail("write", folder, errno);
  // EINVAL: this file system writes the entries of a folder by itself.
  if (fsync(descriptor.get()) != 0 && errno != EINVAL) fail("write", folder, errno);
}

void make_folders(const fs::path& folder) {
  const fs::path whole = folder.has_filename() ? folder : folder.parent_path();  // "runs/" is "runs"
  const fs::path parent = whole.has_parent_path() ? whole.parent_path() : ".";
  std::error_code ignored;
  if (whole.empty() || fs::is_directory(whole, ignored)) return;
  if (parent != whole) make_folders(parent);
  if (::mkdir(whole.c_str(), 0777) == 0) return sync_folder(parent);
  const int error = errno;
  if (!fs::is_directory(whole, ignored)) fail("make the folder", whole, error);
}

Checksum checksum_of(std::span<const std::byte> bytes) {
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return {static_cast<std::uint32_t>(crc), {static_cast<std::int64_t>(bytes.size())}};
}

Checksum joined(const Checksum& first, const Checksum& second) {
  const auto crc = crc32_combine(first.crc, second.crc, second.bytes.value);
  return {static_cast<std::uint32_t>(crc), {first.bytes.value + second.bytes.value}};
}

std::string hexadecimal(std::uint32_t crc) { return format_text("%08x", crc); }

}  // namespace lockstep::state
