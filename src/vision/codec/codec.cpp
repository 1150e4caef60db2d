// SPDX-License-Identifier: Apache-2.0
#include "vision/codec/codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "lockstep/base/error.hpp"
#include "vision/codec/decoders.hpp"
#include "vision/codec/upright.hpp"

namespace lockstep::vision {
namespace {

struct FirstBytes {
  PictureFormat format;
  std::size_t at;
  std::string_view bytes;
};

using namespace std::string_view_literals;  // for signatures with zero bytes
constexpr std::array signatures{
    FirstBytes{PictureFormat::jpeg, 0, "\xFF\xD8\xFF"sv},
    FirstBytes{PictureFormat::png, 0, "\x89PNG\r\n\x1A\n"sv},
    FirstBytes{PictureFormat::webp, 8, "WEBP"sv},  // behind "RIFF" and a length
    FirstBytes{PictureFormat::bmp, 0, "BM"sv},
    FirstBytes{PictureFormat::tiff, 0, "II*\0"sv},
    FirstBytes{PictureFormat::tiff, 0, "MM\0*"sv},
    FirstBytes{PictureFormat::tiff, 0, "II+\0"sv},  // BigTIFF
    FirstBytes{PictureFormat::tiff, 0, "MM\0+"sv},
    FirstBytes{PictureFormat::gif, 0, "GIF8"sv},
};

/// The brands of HEIF's file type box; AVIF and HEIC are both pictures of this container.
constexpr std::array heic_brands{"heic"sv, "heix"sv, "hevc"sv, "heim"sv, "heis"sv,
                                 "mif1"sv, "msf1"sv, "avif"sv, "avis"sv};

bool has_at(std::span<const std::byte> file, std::size_t at, std::string_view bytes) {
  return file.size() >= at + bytes.size() && std::memcmp(file.data() + at, bytes.data(), bytes.size()) == 0;
}

bool is_heic(std::span<const std::byte> file) {
  return has_at(file, 4, "ftyp") && std::any_of(heic_brands.begin(), heic_brands.end(),
                                                [&](std::string_view brand) { return has_at(file, 8, brand); });
}

[[noreturn]] void fail_unsupported(PictureFormat format, bool is_empty) {
  if (is_empty) throw Error(ErrorCode::corrupt, "the file is empty");
  if (format == PictureFormat::unknown)
    throw Error(ErrorCode::corrupt, "this is no picture; its first bytes are those of neither a JPEG nor a PNG");
  throw Error(ErrorCode::unsupported,
              std::string(name(format)) + " cannot be decoded; convert the picture to JPEG or PNG");
}

}  // namespace

std::string_view name(PictureFormat format) {
  switch (format) {
    case PictureFormat::jpeg: return "JPEG";
    case PictureFormat::png: return "PNG";
    case PictureFormat::webp: return "WebP";
    case PictureFormat::bmp: return "BMP";
    case PictureFormat::tiff: return "TIFF";
    case PictureFormat::gif: return "GIF";
    case PictureFormat::heic: return "HEIC";
    case PictureFormat::unknown: break;
  }
  return "unknown";
}

PictureFormat format_of(std::span<const std::byte> file) {
  for (const FirstBytes& signature : signatures)
    if (has_at(file, signature.at, signature.bytes)) return signature.format;
  return is_heic(file) ? PictureFormat::heic : PictureFormat::unknown;
}

void check_limits(const PictureInfo& info, const DecodeLimits& limits) {
  const bool is_too_long = info.width > limits.side || info.height > limits.side;
  if (!is_too_long && std::int64_t{info.width} * info.height <= limits.pixels) return;
  throw Error(ErrorCode::corrupt, "the " + std::string(name(info.format)) + " claims " + std::to_string(info.width) +
                                      "×" + std::to_string(info.height) + " pixels; at most " +
                                      std::to_string(limits.pixels) + " pixels and " + std::to_string(limits.side) +
                                      " on a side are decoded");
}

PictureInfo inspect(std::span<const std::byte> file, const DecodeLimits& limits) {
  PictureInfo info;
  switch (const PictureFormat format = format_of(file)) {
    case PictureFormat::jpeg: info = inspect_jpeg(file); break;
    case PictureFormat::png: info = inspect_png(file, limits); break;
    default: fail_unsupported(format, file.empty());
  }
  check_limits(info, limits);
  return info;
}

void decode(std::span<const std::byte> file, const DecodeOptions& options, Image& picture) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) {
    throw Error(ErrorCode::invalid_argument, "a picture has 1 or 3 channels, not " + std::to_string(options.channels));
  }
  PictureInfo info;
  switch (const PictureFormat format = format_of(file)) {
    case PictureFormat::jpeg: info = decode_jpeg(file, options, picture); break;
    case PictureFormat::png: info = decode_png(file, options, picture); break;
    default: fail_unsupported(format, file.empty());
  }
  turn_upright(picture, info.orientation);
}

}  // namespace lockstep::vision
