// SPDX-License-Identifier: Apache-2.0
#include "vision/codec/jpeg_header.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/error.hpp"
#include "vision/codec/upright.hpp"

namespace lockstep::vision {
namespace {

constexpr int start_of_scan = 0xDA;
constexpr int end_of_image = 0xD9;
constexpr int app1 = 0xE1;   // EXIF, or XMP
constexpr int app14 = 0xEE;  // Adobe

[[noreturn]] void fail_damaged(const char* why) {
  throw Error(ErrorCode::corrupt, std::string("the JPEG is damaged: ") + why);
}

/// SOF0 … SOF15 are 0xC0 … 0xCF, among which there are three other markers.
bool is_start_of_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/// Markers without a length: TEM, RST0 … RST7.
bool stands_alone(int marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7); }

bool begins_with(std::span<const std::byte> segment, std::string_view text) {
  return segment.size() >= text.size() && std::memcmp(segment.data(), text.data(), text.size()) == 0;
}

/// Steps from marker to marker.
class Markers {
 public:
  explicit Markers(std::span<const std::byte> file) : file_(file) {
    if (file.size() < 2 || byte(0) != 0xFF || byte(1) != 0xD8) fail_damaged("it does not begin with a start marker");
  }

  /// Returns the next marker and the contents of its segment.
  std::pair<int, std::span<const std::byte>> next() {
    const int marker = next_marker();
    if (marker == end_of_image || stands_alone(marker)) return {marker, {}};
    const std::size_t length = number(0);
    if (length < 2 || length > file_.size() - at_) fail_damaged("a segment is cut off");
    const auto segment = file_.subspan(at_ + 2, length - 2);
    at_ += length;
    return {marker, segment};
  }

 private:
  [[nodiscard]] int byte(std::size_t at) const { return std::to_integer<int>(file_[at]); }
  [[nodiscard]] std::size_t number(std::size_t ahead) const {
    if (file_.size() - at_ < ahead + 2) fail_damaged("it ends before its first scan");
    return static_cast<std::size_t>(byte(at_ + ahead) << 8 | byte(at_ + ahead + 1));
  }

  /// Any bytes may precede a marker. 0xFF 0x00 is none: it stands for the byte 0xFF in a scan.
  int next_marker() {
    while (true) {
      at_ = static_cast<std::size_t>(std::find(file_.begin() + static_cast<std::ptrdiff_t>(at_), file_.end(), fill) -
                                     file_.begin());
      while (at_ < file_.size() && file_[at_] == fill) ++at_;  // one or more
      if (at_ == file_.size()) fail_damaged("it ends before its first scan");
      if (const int marker = byte(at_++); marker != 0) return marker;
    }
  }

  static constexpr std::byte fill{0xFF};
  std::span<const std::byte> file_;
  std::size_t at_ = 2;
};

void read_frame(int marker, std::span<const std::byte> segment, JpegHeader& header) {
  if (segment.size() < 6) fail_damaged("its frame header is cut off");
  const auto number = [&](std::size_t at) {
    return std::to_integer<int>(segment[at]) << 8 | std::to_integer<int>(segment[at + 1]);
  };
  const int precision = std::to_integer<int>(segment[0]);
  // Baseline, extended and progressive, by Huffman codes (0xC0 … 0xC2) or arithmetic ones (0xC9, 0xCA).
  const bool is_known = marker <= 0xC2 || marker == 0xC9 || marker == 0xCA;
  if (!is_known || precision != 8) {
    throw Error(ErrorCode::unsupported, "lossless, hierarchical and " + std::to_string(precision) +
                                            "-bit JPEG cannot be decoded; convert the picture to baseline JPEG or PNG");
  }
  header.height = number(1);
  header.width = number(3);
  header.components = std::to_integer<int>(segment[5]);
  if (header.width == 0 || header.height == 0) fail_damaged("it has no pixels");
  if (header.components != 1 && header.components != 3 && header.components != 4) {
    throw Error(ErrorCode::unsupported, "a JPEG of " + std::to_string(header.components) +
                                            " components cannot be decoded; convert the picture to RGB");
  }
}

}  // namespace

JpegHeader read_jpeg_header(std::span<const std::byte> file) {
  static constexpr std::string_view exif("Exif\0\0", 6);
  JpegHeader header;
  Markers markers(file);
  bool has_exif = false;
  while (true) {
    const auto [marker, segment] = markers.next();
    if (marker == end_of_image) fail_damaged("it has no scan");
    if (marker == start_of_scan) break;
    if (is_start_of_frame(marker)) {
      if (header.components != 0) fail_damaged("it has two frames");
      read_frame(marker, segment, header);
    } else if (marker == app1 && !has_exif && begins_with(segment, exif)) {
      header.orientation = exif_orientation(segment.subspan(exif.size()));
      has_exif = true;
    } else if (marker == app14 && segment.size() >= 12 && begins_with(segment, "Adobe")) {
      header.has_adobe = true;
    }
  }
  if (header.components == 0) fail_damaged("it has no frame header in front of its first scan");
  return header;
}

bool has_end_marker(std::span<const std::byte> file) {
  try {
    Markers markers(file);
    while (markers.next().first != end_of_image) continue;
    return true;
  } catch (const Error&) {
    return false;
  }
}

PictureInfo info_of(const JpegHeader& header) {
  return upright({PictureFormat::jpeg, header.width, header.height, header.orientation});
}

}  // namespace lockstep::vision
