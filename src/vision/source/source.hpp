// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vision/image/codec.hpp"

/// Everybody's own data: which samples there are, where their bytes lie, and what is known about them.
namespace lockstep::vision {

/// A box in pixels of the picture. Right and bottom are the first pixels beyond it.
struct Box {
  std::int32_t label = 0;
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
  bool is_difficult = false;  ///< evaluations may leave it out
};

/// What is known about a sample, in pixels of the original picture.
struct Annotation {
  std::int32_t label = -1;  ///< class of the whole picture; −1: none is known
  std::vector<Box> boxes;
};

/// Samples of pictures with annotations, as they lie on disk. It knows no model and no tensor. All functions may be
/// called by several threads at once.
class Source {
 public:
  virtual ~Source() = default;
  /// The name of its format, as --data-format takes it.
  [[nodiscard]] virtual std::string format() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The names of the classes, by label.
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const = 0;
  [[nodiscard]] virtual const Annotation& annotation(std::int64_t sample) const = 0;
  /// Names a sample for messages: the path of its picture, or a file and the number of the picture in it.
  [[nodiscard]] virtual std::string place(std::int64_t sample) const = 0;
  /// Reads the bytes of a picture as they are stored.
  /// @param bytes  overwritten; its memory is used again
  /// @throws Error{io} that names the place and why
  virtual void read(std::int64_t sample, std::vector<std::byte>& bytes) const = 0;
  /// Decodes what `read` has read. Files are JPEG or PNG unless the format has pixels of its own.
  /// @throws Error{corrupt | unsupported} that names the place and what is wrong
  virtual void decode(std::int64_t sample, std::span<const std::byte> bytes, const DecodeOptions& options,
                      Image& picture) const;
};

}  // namespace lockstep::vision
