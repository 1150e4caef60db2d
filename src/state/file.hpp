// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/text_file.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::state {

/// Throws what happened to a path: "cannot write 'PATH': REASON; REMEDY".
/// @param what   "read", "write", "make the folder": follows "cannot"
/// @param error  a value of errno
/// @throws Error{io}, always
[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int error);

/// An open file that is read and written at positions, by several processes at the same time. All functions
/// @throws Error{io} with path, reason and remedy: no such file, not a regular file, no space, quota, limit of file
///         sizes, no permission, read-only.
class File {
 public:
  static File open_to_read(const std::filesystem::path& path);
  /// Opens an existing file.
  static File open_to_write(const std::filesystem::path& path);
  /// Makes a file of this size, which must not exist. Space is reserved where the file system can, so that a full disk
  /// is noticed here. The content is zero.
  static File create(const std::filesystem::path& path, Bytes size);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] Bytes size() const;
  /// Fills `to` with the bytes from `offset` on. @throws Error{corrupt} if the file ends before
  void read(std::span<std::byte> to, Bytes offset) const;
  void write(std::span<const std::byte> from, Bytes offset) const;
  /// Writes everything to disk that any process has written into the file on this host.
  void sync() const;

 private:
  File(std::filesystem::path path, Descriptor descriptor);
  std::filesystem::path path_;
  Descriptor descriptor_;
};

/// Writes the entries of a folder to disk: names that were made, removed or changed. @throws Error{io}
void sync_folder(const std::filesystem::path& folder);

/// Makes a folder and its missing parents, and writes the new names to disk. A folder that exists is left as it is.
/// @throws Error{io}, for instance if a file is where a folder should be
void make_folders(const std::filesystem::path& folder);

/// The CRC-32 of consecutive bytes, and their number. It finds damage, not malice. Checksums of parts that different
/// ranks have written are joined without reading the bytes again.
struct Checksum {
  std::uint32_t crc = 0;
  Bytes bytes;
  friend bool operator==(const Checksum&, const Checksum&) = default;
};

Checksum checksum_of(std::span<const std::byte> bytes);
/// Returns the checksum of the bytes of `first` and then those of `second`. @cost  logarithmic in the bytes of `second`
Checksum joined(const Checksum& first, const Checksum& second);
/// Returns the CRC-32 as 8 hexadecimal digits.
std::string hexadecimal(std::uint32_t crc);

}  // namespace lockstep::state
