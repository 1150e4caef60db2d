// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vision/codec/codec.hpp"

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
  bool is_crowd = false;      ///< it stands for many objects that lie close together; only evaluations read such boxes
  double area = -1;           ///< of the object in the original picture (COCO: of its mask); −1: that of the box
};

/// Where the stored picture lies in a picture that was made of it: a point (x, y) of the stored one is at
/// (scale_x·x + left, scale_y·y + top). A scale is negative where the picture is mirrored.
struct Frame {
  double scale_x = 1;
  double scale_y = 1;
  double left = 0;
  double top = 0;
  int width = 0;  ///< of the stored picture, upright; 0: several pictures, or one that is turned
  int height = 0;
};

/// The area by which evaluations call an object small, medium or large, in pixels of the original picture. Transforms
/// change a box and leave `area` as it is.
inline double area_of(const Box& box) {
  return box.area >= 0 ? box.area : (double{box.right} - box.left) * (double{box.bottom} - box.top);
}

/// What is known about a sample, in pixels of the original picture.
struct Annotation {
  std::int32_t label = -1;  ///< class of the whole picture; −1: none is known
  std::vector<Box> boxes;
  /// The class of each pixel, in one channel; `left_out_pixel` for pixels that losses and metrics ignore. Without
  /// pixels it is not known, or it lies in the file `mask_file`.
  Image mask{.channels = 1, .pixels = {}};
  std::string mask_file;  ///< relative to the folder of the data, or absolute; empty: there is none
  std::string text;       ///< what is written in the picture, in UTF-8
  Frame frame;            ///< kept by transforms; sources leave it as it is
  int width = 0;          ///< of the upright picture that boxes belong to, by its header or annotation; 0: not known
  int height = 0;         ///< as `width`
  std::optional<std::int64_t> image_id;  ///< the number of the picture in COCO's files
};

/// Samples of pictures with annotations, as they lie on disk. It knows no model and no tensor. All functions may be
/// called by several threads at once.
class Source {
 public:
  virtual ~Source() = default;
  /// The name of its format, as --data-format takes it.
  [[nodiscard]] virtual std::string format() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The names of the classes, by label. They are bytes as the user's files have them, which need not be UTF-8.
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const = 0;
  /// The numbers of the classes in COCO's files, by label; empty: they are the labels.
  [[nodiscard]] virtual const std::vector<std::int64_t>& category_ids() const;
  [[nodiscard]] virtual const Annotation& annotation(std::int64_t sample) const = 0;
  /// Names a sample for messages: the path of its picture, or a file and the number of the picture in it.
  [[nodiscard]] virtual std::string place(std::int64_t sample) const = 0;
  /// As `place`, but relative to the folder of the data: ranks compare it, whose copies may lie in different folders.
  [[nodiscard]] virtual std::string relative_place(std::int64_t sample) const { return place(sample); }
  /// The size of a stored picture, as it was when the source was opened; −1 if the source holds it in memory.
  [[nodiscard]] virtual std::int64_t stored_bytes(std::int64_t /*sample*/) const { return -1; }
  /// Reads the bytes of a picture as they are stored.
  /// @param bytes  overwritten; its memory is used again
  /// @throws Error{io} that names the place and why
  virtual void read(std::int64_t sample, std::vector<std::byte>& bytes) const = 0;
  /// Decodes what `read` has read. Files are JPEG or PNG unless the format has pixels of its own.
  /// @throws Error{corrupt} that names the place and what is wrong, if the contents are at fault: they are damaged, or
  ///         of a kind that no lockstep reads, such as WebP; Error{unsupported} if this lockstep was built without the
  ///         library that reads them, which says nothing about the sample
  virtual void decode(std::int64_t sample, std::span<const std::byte> bytes, const DecodeOptions& options,
                      Image& picture) const;
  /// Reads the class of each pixel of a sample from the file that its annotation names. A sample without such a file
  /// has no pixels.
  /// @param bytes  memory that is used again
  /// @param mask   overwritten; one channel, upright
  /// @throws Error{io} if the file cannot be read; Error{corrupt} if it is damaged, has several channels, or a value
  ///         that is neither a class nor `left_out_pixel`; Error{unsupported} as `decode`
  virtual void read_mask(std::int64_t /*sample*/, std::vector<std::byte>& /*bytes*/, Image& mask) const {
    mask.resize(0, 0, 1);
  }
};

/// The samples to train on and to evaluate on, with the same class names. A part that there is not is null.
struct SourcePair {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> val;
};

}  // namespace lockstep::vision
