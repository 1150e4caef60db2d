// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/types.hpp"
#include "platform/node_memory/descriptor.hpp"
#include "platform/node_memory/mapping.hpp"

namespace lockstep {

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
