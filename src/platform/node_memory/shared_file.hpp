// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/types.hpp"
#include "platform/node_memory/descriptor.hpp"
#include "platform/node_memory/mapping.hpp"

namespace lockstep {

/// Which file it is, on this machine and until it is started again.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// Of the file that a path leads to; all zeros if it leads to none.
FileIdentity identity_of(const std::string& path);

/// A file without a name, in memory, mapped by the processes that have its descriptor. Sparse: it has a size from the
/// start and gets memory piece by piece. Gone with the last process that has it.
class SharedFile {
 public:
  /// @param bytes  whole pages; can never change, in no process. @throws Error{unsupported}
  explicit SharedFile(Bytes bytes);
  /// One that another process made, by the other constructor. @param file  which one it is
  /// @throws Error{unsupported}; Error{corrupt} for any other file: one that its owner could make shorter would be the
  ///         end of whoever reaches into it
  SharedFile(Descriptor descriptor, Bytes bytes, const FileIdentity& file);

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  [[nodiscard]] FileIdentity identity() const;
  [[nodiscard]] std::byte* data() const { return mapping_.data(); }

  /// @throws Error{unsupported} unless the node has so much memory left that `bytes` more leave something for others
  static void check_room(Bytes bytes);
  /// Backs a range with memory, zeroed where it had none. Whole pages.
  /// @throws Error{unsupported} if the node has not enough; the range may then be backed in part
  void provide(std::int64_t offset, Bytes bytes);
  /// Gives a range's memory back; it reads as zeros from then on, for everybody.
  void discard(std::int64_t offset, Bytes bytes) noexcept;

  /// Marks a byte as this process's. The mark ends with the process, however that comes about. @throws
  /// Error{unsupported}
  void mark(std::int64_t offset);
  /// Whether the byte is another process's; true also where the kernel does not say.
  [[nodiscard]] bool marked_by_other(std::int64_t offset) const;

 private:
  Descriptor descriptor_;
  Mapping mapping_;
};

}  // namespace lockstep
