// SPDX-License-Identifier: Apache-2.0
#include "vision/source/picture_header.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>
#include <vector>

#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

constexpr std::size_t head_bytes = std::size_t{64} << 10;

/// Reads from a place in a file until the span is full or the file ends. @return how many bytes; 0 also after an error
std::size_t read_at(const Descriptor& file, std::int64_t at, std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(at) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

/// Whether the orientation of a PNG stands behind its first bytes: its chunk eXIf may follow the pixels.
bool has_exif_behind(const Descriptor& file, std::int64_t first) {
  constexpr std::int64_t frame = 12;  // length, type and checksum of a chunk
  std::array<std::byte, 8> head{};
  for (std::int64_t at = 8; read_at(file, at, head) == head.size();) {
    std::int64_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::int64_t>(head[i]);
    at += frame + length;
    const std::string_view type(reinterpret_cast<const char*>(head.data()) + 4, 4);
    if (type == "eXIf") return at > first;
    const bool is_chunk =
        std::all_of(type.begin(), type.end(), [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; });
    if (type == "IEND" || !is_chunk) break;
  }
  return false;
}

/// Returns what the bytes say; nothing if they are at fault. @throws Error{unsupported} for what this build lacks
std::optional<PictureInfo> info_of(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  try {
    return inspect(bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported || !is_supported(format_of(bytes))) return std::nullopt;
    throw Error(error.code(), shown(path) + ": " + error.message());
  }
}

}  // namespace

std::optional<PictureInfo> header_of(const std::filesystem::path& path) {
  std::vector<std::byte> bytes(head_bytes);
  // O_NONBLOCK: opening a pipe would wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const std::size_t got = file.open() ? read_at(file, 0, bytes) : 0;
  bytes.resize(got);
  const bool is_whole = got > 0 && got < head_bytes;
  const bool is_long_png = got == head_bytes && format_of(bytes) == PictureFormat::png;
  std::optional<PictureInfo> info;
  if (got > 0 && !(is_long_png && has_exif_behind(file, static_cast<std::int64_t>(got)))) info = info_of(bytes, path);
  if (info || is_whole) return info;
  read_file(path, bytes);  // says why a file cannot be read
  return info_of(bytes, path);
}

}  // namespace lockstep::vision
