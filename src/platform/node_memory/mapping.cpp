// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include "lockstep/base/error.hpp"
#include "platform/machine/available_memory.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // older headers do not define it
#endif

namespace lockstep {
namespace {

/// Reserves aligned addresses for `bytes`, without memory. Returns null if there are not enough addresses.
std::byte* reserve(std::size_t bytes) {
  constexpr auto alignment = static_cast<std::size_t>(huge_page_bytes);
  void* wide = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(wide);
  const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment) % alignment;
  if (before > 0) munmap(begin, before);
  if (before < alignment) munmap(begin + before + bytes, alignment - before);
  return begin + before;
}

bool fill(std::byte* data, std::size_t bytes, int flags, int descriptor) {
  if (mmap(data, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE, descriptor, 0) == MAP_FAILED) {
    return false;
  }
  madvise(data, bytes, MADV_DONTDUMP);
  madvise(data, bytes, MADV_HUGEPAGE);  // advice: without huge pages it is only slower
  return true;
}

/// Size of the pieces in which memory is requested. The available memory is checked before each piece, because other
/// processes take memory meanwhile.
constexpr std::int64_t piece_bytes = std::int64_t{256} << 20;

/// The memory that this process may take before it checks again what the node has left, for which it reads a dozen
/// files. The credit is small and short enough that the reserve of check_room covers that of 32 processes.
class Credit {
 public:
  bool covers(Bytes bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes.value > left_.value || Clock::now() > end_) return false;
    left_.value -= bytes.value;
    return true;
  }
  void renew(Bytes available) {
    const std::lock_guard lock(mutex_);
    left_.value = std::min(available.value / 1024, std::int64_t{16} << 20);
    end_ = Clock::now() + std::chrono::seconds(1);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  Bytes left_{0};
  Clock::time_point end_;
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::unsupported, what); }

constexpr int seals_of_its_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::corrupt, "the shared memory received " + what + "; is there a process that interferes?");
}

FileIdentity identity_in(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
}

Descriptor create(Bytes bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(bytes.value)) {
    // ftruncate would raise SIGXFSZ then.
    refuse("the limit of file sizes (ulimit -f) is below the " + std::to_string(bytes.value) +
           " bytes that the node's shared memory needs; raise it or set a smaller heap");
  }
  Descriptor made(memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.open()) refuse(failed("memfd_create"));
  if (ftruncate(made.get(), bytes.value) != 0) refuse(failed("ftruncate"));
  if (fcntl(made.get(), F_ADD_SEALS, seals_of_its_size) != 0) refuse(failed("F_ADD_SEALS"));
  return made;
}

struct flock one_byte(std::int64_t offset) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = offset;
  range.l_len = 1;
  return range;
}

}  // namespace

// The size must be a multiple of a page: mmap rounds the end up, but the munmap in reserve() needs an exact end.
Mapping Mapping::of_file(int descriptor, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes.value);
  Mapping mapping(reserve(size), size);
  if (mapping.data_ == nullptr || !fill(mapping.data_, size, MAP_SHARED, descriptor)) {
    throw Error(ErrorCode::unsupported, "cannot map " + std::to_string(bytes.value) +
                                            " bytes of the node's shared memory: " + failed("mmap") +
                                            "; raise the limit of addresses (ulimit -v) or set a smaller heap");
  }
  return mapping;
}

Mapping Mapping::untouched(Bytes bytes) {
  if (bytes > std::numeric_limits<std::int64_t>::max() - huge_page_bytes) throw std::bad_alloc();
  const auto size = static_cast<std::size_t>((bytes.value + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes);
  Mapping mapping(reserve(size), size);
  if (mapping.data_ == nullptr || !fill(mapping.data_, size, MAP_PRIVATE | MAP_ANONYMOUS, -1)) throw std::bad_alloc();
  return mapping;
}

Mapping Mapping::anonymous(Bytes bytes) {
  Mapping mapping = untouched(bytes);
  if (!populate(mapping.data_, {static_cast<std::int64_t>(mapping.bytes_)}) && errno == ENOMEM) throw std::bad_alloc();
  return mapping;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool populate(std::byte* data, Bytes bytes) {
  while (madvise(data, static_cast<std::size_t>(bytes.value), MADV_POPULATE_WRITE) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

SharedFile::SharedFile(Bytes bytes)
    : descriptor_(create(bytes)), mapping_(Mapping::of_file(descriptor_.get(), bytes)) {}

SharedFile::SharedFile(Descriptor descriptor, Bytes bytes, const FileIdentity& file)
    : descriptor_(std::move(descriptor)) {
  if (identity() != file) reject("is not the file that local rank 0 made");
  const int seals = fcntl(descriptor_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & seals_of_its_size) != seals_of_its_size) reject("could change its size");
  struct stat status {};
  if (fstat(descriptor_.get(), &status) != 0 || status.st_size != bytes.value)
    reject("has " + std::to_string(status.st_size) + " bytes instead of " + std::to_string(bytes.value));
  mapping_ = Mapping::of_file(descriptor_.get(), bytes);
}

FileIdentity identity_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? identity_in(status) : FileIdentity{};
}

FileIdentity SharedFile::identity() const {
  struct stat status {};
  return fstat(descriptor_.get(), &status) == 0 ? identity_in(status) : FileIdentity{};
}

void SharedFile::check_room(Bytes bytes) {
  static Credit credit;
  if (credit.covers(bytes)) return;
  const Bytes available = available_memory();
  // The rest of the system needs memory as well, so a thirty-second of the available memory is left.
  if (bytes.value <= available.value - available.value / 32) return credit.renew(available);
  refuse("the node has " + std::to_string(available.value) + " bytes of memory left for " +
         std::to_string(bytes.value) +
         " more to be shared by its ranks; run fewer ranks on it, use smaller buffers, or "
         "raise the memory limit of its container or batch job");
}

void SharedFile::provide(std::int64_t offset, Bytes bytes) {
  check_room(bytes);
  for (std::int64_t done = 0; done < bytes.value; done += piece_bytes) {
    const std::int64_t piece = std::min(piece_bytes, bytes.value - done);
    if (done > 0) check_room({piece});
    if (populate(data() + offset + done, {piece})) continue;
    // Kernels that cannot populate at least reserve the memory, so that no process gets a SIGBUS for lack of it later.
    int result = -1;
    while ((result = fallocate(descriptor(), 0, offset + done, piece)) != 0 && errno == EINTR) {
    }
    if (result != 0)
      refuse("the node's memory does not suffice for " + std::to_string(bytes.value) +
             " bytes: " + failed("fallocate"));
  }
}

void SharedFile::discard(std::int64_t offset, Bytes bytes) noexcept {
  if (fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes.value) == 0) return;
  std::memset(data() + offset, 0, static_cast<std::size_t>(bytes.value));
}

// Locks of this kind belong to a process instead of an open file that several processes share; fork() does not pass
// them on.
void SharedFile::mark(std::int64_t offset) {
  struct flock range = one_byte(offset);
  if (fcntl(descriptor(), F_SETLK, &range) != 0) refuse(failed("F_SETLK"));
}

bool SharedFile::marked_by_other(std::int64_t offset) const {
  struct flock range = one_byte(offset);
  return fcntl(descriptor(), F_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

}  // namespace lockstep
