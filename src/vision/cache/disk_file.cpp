// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "platform/node_memory/mapping.hpp"
#include "platform/node_memory/node_memory_layout.hpp"
#include "vision/cache/cache_file.hpp"
#include "vision/cache/first_reason.hpp"

namespace lockstep::vision {
namespace {

[[noreturn]] void refuse_file(const std::filesystem::path& path, const char* call) {
  throw Error(ErrorCode::io, "the cache of decoded pictures '" + path.string() + "' cannot be used: " + failed(call));
}

class DiskFile final : public CacheFile {
 public:
  DiskFile(std::filesystem::path path, Descriptor descriptor, Bytes bytes)
      : path_(std::move(path)),
        descriptor_(std::move(descriptor)),
        bytes_(bytes),
        mapping_(Mapping::of_file(descriptor_.get(), bytes)) {}

  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }
  [[nodiscard]] Bytes size() const override { return bytes_; }
  void provide(std::int64_t offset, Bytes bytes) override {
    int error = 0;
    while ((error = posix_fallocate(descriptor_.get(), offset, bytes.value)) == EINTR) {
    }
    errno = error;
    if (error != 0) refuse_file(path_, "posix_fallocate");
  }
  [[nodiscard]] bool is_lasting() const override { return true; }

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  Bytes bytes_;
  Mapping mapping_;
};

/// Opens a file that is there. @return null if there is none, or none of whole pages
std::shared_ptr<CacheFile> open_file(const std::filesystem::path& path) {
  Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.open() && errno == ENOENT) return nullptr;
  if (!file.open()) refuse_file(path, "open");
  struct stat status {};
  if (fstat(file.get(), &status) != 0) refuse_file(path, "fstat");
  if (!S_ISREG(status.st_mode) || status.st_size == 0 || status.st_size % page_bytes() != 0) return nullptr;
  return std::make_shared<DiskFile>(path, std::move(file), Bytes{status.st_size});
}

/// Makes a new file of zeros in the place of one that may be there, which processes that use it keep.
std::shared_ptr<CacheFile> make_file(const std::filesystem::path& path, Bytes bytes) {
  const std::string fresh = path.string() + ".new";
  Descriptor file(open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.open()) refuse_file(fresh, "open");
  if (ftruncate(file.get(), bytes.value) != 0) refuse_file(fresh, "ftruncate");
  auto made = std::make_shared<DiskFile>(path, std::move(file), bytes);
  if (std::rename(fresh.c_str(), path.c_str()) != 0) refuse_file(path, "rename");
  return made;
}

/// Opens or makes the file, while no other process of this machine does so in that folder.
std::shared_ptr<CacheFile> open_or_make(const std::filesystem::path& path, Bytes bytes,
                                        const std::function<bool(const CacheFile&)>& fits) {
  const std::filesystem::path folder = path.parent_path();
  const Descriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.open()) refuse_file(folder, "open");
  while (flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) refuse_file(folder, "flock");
  std::shared_ptr<CacheFile> file = open_file(path);
  if (file != nullptr && fits(*file)) return file;
  return make_file(path, bytes);
}

}  // namespace

std::shared_ptr<CacheFile> open_disk_file(const std::filesystem::path& path, Bytes bytes,
                                          const std::function<bool(const CacheFile& file)>& fits,
                                          const NodeRanks& ranks, std::string& why_not) {
  std::shared_ptr<CacheFile> file;
  std::string failure = reason_of_failure(ranks, [&] {
    if (ranks.rank == 0) file = open_or_make(path, whole_pages(bytes), fits);
  });
  if (ranks.size > 1) {
    const bool is_there = !ranks.gather(file != nullptr ? "open" : "").front().empty();
    if (ranks.rank != 0 && is_there) failure = reason_of_failure(ranks, [&] { file = open_file(path); });
  }
  why_not = first_reason(ranks, failure);
  return file;
}

}  // namespace lockstep::vision
