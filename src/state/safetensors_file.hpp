// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "lockstep/base/layout.hpp"
#include "state/file.hpp"
#include "state/safetensors.hpp"

namespace lockstep::state {

/// Reads tensors of a file. Several threads may read at the same time.
class SafetensorsReader {
 public:
  /// Reads the header. @throws Error{io}; Error{corrupt} or Error{unsupported} as SafetensorsHeader::parse
  explicit SafetensorsReader(const std::filesystem::path& path, ForeignTensors foreign = ForeignTensors::refuse);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  /// Returns the index of a tensor. @throws Error{invalid_argument} that names file and tensor if there is none
  [[nodiscard]] int index_of(std::string_view name) const;
  /// Overwrites `to` with the elements of a tensor from `first` on, as many as fit.
  /// @param to  host memory with the tensor's dtype
  /// @throws Error{invalid_argument} for another dtype, device memory, or elements that the tensor lacks; Error{io};
  ///         Error{corrupt} if the file has become shorter
  void read(int tensor, Count first, const Buffer& to) const;
  /// Reads a tensor and returns its checksum. @throws Error{io}; Error{corrupt}  @cost  1 MiB of memory
  [[nodiscard]] Checksum checksum(int tensor) const;
  /// Returns the checksum of the bytes before the tensors. @throws Error{io}; Error{corrupt}
  [[nodiscard]] Checksum header_checksum() const;

 private:
  [[nodiscard]] Checksum checksum_of_range(Bytes begin, Bytes bytes) const;
  File file_;
  SafetensorsHeader header_;
};

/// What was written of a tensor: the elements from `first` on. Ranks exchange such values as plain bytes.
struct WrittenPart {
  std::int32_t tensor = 0;
  Count first;
  Checksum sum;
};

/// Writes tensors of a file that several processes fill together, each the parts that it owns. One process calls
/// `create`; then all open the file, write, and `sync`; then the parts of all are joined by `tensor_checksums`.
class SafetensorsWriter {
 public:
  /// Makes a file of its full size with its header. @throws Error{io}, for instance if the disk has no room for it
  static void create(const std::filesystem::path& path, const SafetensorsHeader& header);
  /// Opens a file that `create` has made with an equal header. @throws Error{io}; Error{corrupt} if its size differs
  SafetensorsWriter(const std::filesystem::path& path, SafetensorsHeader header);

  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  /// Writes elements of a tensor from `first` on.
  /// @param elements  host memory with the tensor's dtype
  /// @throws Error{invalid_argument} for another dtype, device memory, or elements that the tensor lacks; Error{io}
  WrittenPart write(int tensor, Count first, const ConstBuffer& elements) const;
  /// Waits until what this host has written is on disk. @throws Error{io}
  void sync() const { file_.sync(); }

 private:
  File file_;
  SafetensorsHeader header_;
};

/// Returns the checksum of each tensor, from the parts that all processes have written, in any order.
/// @throws Error{mismatch} that names the tensor if an element was written twice or not at all
std::vector<Checksum> tensor_checksums(const SafetensorsHeader& header, std::vector<WrittenPart> parts);
/// Returns the checksum of the whole file. @pre header made by `of`
Checksum file_checksum(const SafetensorsHeader& header, const std::vector<Checksum>& tensors);

/// Elements of one tensor of a layout.
struct TensorPart {
  int tensor = 0;  ///< index in the layout
  Count first;     ///< from the beginning of the tensor
  Count count;
};
/// Returns which elements of which tensors lie in a part of a layout, without the padding between tensors.
std::vector<TensorPart> tensor_parts(const Layout& layout, const LayoutPart& part);

}  // namespace lockstep::state
