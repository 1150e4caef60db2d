// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/text_file.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

inline constexpr std::int64_t huge_page_bytes = std::int64_t{2} << 20;

/// A mapped range of addresses, aligned to a huge page so that the kernel can use huge pages, and excluded from core
/// dumps, which would otherwise contain all of it. Move-only.
class Mapping {
 public:
  Mapping() = default;
  /// Maps the first `bytes` of a file, shared with all processes that map it. It reserves no memory.
  /// @throws Error{unsupported}
  static Mapping of_file(int descriptor, Bytes bytes);
  /// Maps zeroed memory of this process, which gets its pages when they are touched. @throws std::bad_alloc
  static Mapping untouched(Bytes bytes);
  /// Maps zeroed memory of this process, with all pages present. @throws std::bad_alloc
  static Mapping anonymous(Bytes bytes);

  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Makes all pages of a range of a mapping present and writable.
/// @return false, with errno set, on failure; EINVAL on kernels before 5.14, which do not support it
bool populate(std::byte* data, Bytes bytes);

/// A text such as "bind: Address already in use", from the name of the call and errno.
inline std::string failed(const char* call) { return call + (": " + std::generic_category().message(errno)); }

/// Identifies a file on this machine until the machine restarts.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The identity of the file at a path; all zeros if there is none.
FileIdentity identity_of(const std::string& path);

/// A file without a name, in memory, mapped by the processes that have its descriptor. It is sparse: it has a size from
/// the start and gets memory piece by piece. It disappears with the last process that has it.
class SharedFile {
 public:
  /// @param bytes  size in whole pages, which no process can change. @throws Error{unsupported}
  explicit SharedFile(Bytes bytes);
  /// Maps a file that another process made with the other constructor. @param file  identity of that file
  /// @throws Error{unsupported}; Error{corrupt} for any other file, because its owner could shorten it, which would
  ///         kill a process that accesses it
  SharedFile(Descriptor descriptor, Bytes bytes, const FileIdentity& file);

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  [[nodiscard]] FileIdentity identity() const;
  [[nodiscard]] std::byte* data() const { return mapping_.data(); }

  /// @throws Error{unsupported} unless the node has enough memory left for `bytes` more and a reserve for others
  static void check_room(Bytes bytes);
  /// Backs a range of whole pages with memory, which is zero where there was none.
  /// @throws Error{unsupported} if the node has not enough memory; the range may then be backed in part
  void provide(std::int64_t offset, Bytes bytes);
  /// Releases the memory of a range, which then reads as zeros in all processes.
  void discard(std::int64_t offset, Bytes bytes) noexcept;

  /// Marks a byte as this process's. The mark ends with the process, however it ends. @throws Error{unsupported}
  void mark(std::int64_t offset);
  /// Whether another process has marked the byte; also true if the kernel does not say.
  [[nodiscard]] bool marked_by_other(std::int64_t offset) const;

 private:
  Descriptor descriptor_;
  Mapping mapping_;
};

}  // namespace lockstep
