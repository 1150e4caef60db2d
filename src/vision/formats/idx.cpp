// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/wrapped.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

constexpr std::size_t word_bytes = 4;
constexpr std::uint32_t unsigned_byte_magic = 0x00000800;  // plus the number of dimensions

/// Reads a file, or what a file of gzip unpacks to. The end of a gzip stream is checked: zlib's own functions for files
/// take a stream for complete whose checksum and length are cut off.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path.string()), file_(std::fopen(path_.c_str(), "rb")) {
    if (!file_) throw Error(ErrorCode::io, "cannot open " + path_ + ": " + std::strerror(errno));
    fill();
    constexpr std::uint8_t magic[] = {0x1f, 0x8b};
    if (left_.size() < 2 || left_[0] != magic[0] || left_[1] != magic[1]) return;
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2_(&stream_, gzip_only, ZLIB_VERSION, static_cast<int>(sizeof stream_)) != Z_OK)
      throw std::bad_alloc();
    unpacks_ = true;
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (unpacks_) inflateEnd(&stream_);
  }

  /// Reads until `into` is full or the file ends; returns the number of bytes read.
  std::size_t read(std::span<std::uint8_t> into) {
    std::size_t done = 0;
    while (done < into.size()) {
      if (left_.empty()) fill();
      if (!(unpacks_ ? begin_member() : !left_.empty())) break;
      done += unpacks_ ? unpack(into.subspan(done)) : copy(into.subspan(done));
    }
    return done;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorCode::corrupt, path_ + " " + what); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  /// Reads the next bytes of the file; none at its end.
  void fill() {
    errno = 0;
    const std::size_t got = std::fread(memory_.data(), 1, memory_.size(), file_.get());
    if (std::ferror(file_.get()) != 0) throw Error(ErrorCode::io, "cannot read " + path_ + ": " + std::strerror(errno));
    left_ = std::span(memory_).first(got);
  }

  /// Goes on to the next member of the gzip stream if one has ended. Zeros after a member are padding.
  /// @return whether there is something to unpack
  bool begin_member() {
    while (is_between_members_ && !left_.empty() && left_.front() == 0) {
      left_ = left_.subspan(1);
      if (left_.empty()) fill();
    }
    if (is_between_members_ && left_.empty()) return false;
    if (left_.empty()) fail("is truncated: its gzip stream ends too early; fetch it again");
    if (std::exchange(is_between_members_, false)) inflateReset(&stream_);
    return true;
  }

  std::size_t unpack(std::span<std::uint8_t> into) {
    const auto most = static_cast<unsigned>(std::min<std::size_t>(into.size(), 1U << 20));
    stream_.next_in = left_.data();
    stream_.avail_in = static_cast<unsigned>(left_.size());
    stream_.next_out = into.data();
    stream_.avail_out = most;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    left_ = left_.last(stream_.avail_in);
    is_between_members_ = code == Z_STREAM_END;  // zlib has compared the checksum and the length
    if (code != Z_OK && code != Z_STREAM_END)
      fail("is damaged: its gzip stream cannot be unpacked (" +
           std::string(stream_.msg == nullptr ? zError(code) : stream_.msg) + "); fetch it again");
    return most - stream_.avail_out;
  }

  std::size_t copy(std::span<std::uint8_t> into) {
    const std::size_t count = std::min(into.size(), left_.size());
    std::copy_n(left_.begin(), count, into.begin());
    left_ = left_.subspan(count);
    return count;
  }

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(std::size_t{1} << 18);
  std::span<std::uint8_t> left_;  // bytes of the file that have been read and not been used
  bool unpacks_ = false;
  bool is_between_members_ = false;
  z_stream stream_ = {};
};

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
         std::uint32_t{bytes[3]};
}

std::string kind(std::uint32_t dimensions) {
  if (dimensions == 1) return "labels";
  if (dimensions == 3) return "images";
  return "an array of " + std::to_string(dimensions) + " dimensions";
}

/// Refuses another kind of file, with a message that says what kind it is.
void check_magic(const Reader& reader, std::uint32_t magic, std::uint32_t dimensions) {
  const std::uint32_t expected = unsigned_byte_magic + dimensions;
  if (magic == expected) return;
  const std::string numbers =
      " (magic number " + format_text("0x%08x", magic) + ", expected " + format_text("0x%08x", expected) + ")";
  const std::uint32_t found_dimensions = magic & 0xff;
  const std::uint32_t found_type = magic >> 8 & 0xff;
  if (magic >> 16 != 0 || found_type < 0x08 || found_type > 0x0e) reader.fail("is not an IDX file" + numbers);
  if (found_type != unsigned_byte_magic >> 8) reader.fail("holds elements that are not unsigned bytes" + numbers);
  reader.fail("holds " + kind(found_dimensions) + " where " + kind(dimensions) + " are expected" + numbers +
              "; perhaps two files have each other's name: fetch it again");
}

std::vector<std::int64_t> read_sizes(Reader& reader, int dimensions) {
  std::vector<std::uint8_t> header(word_bytes * static_cast<std::size_t>(1 + dimensions));
  const std::size_t got = reader.read(header);
  if (got == 0) reader.fail("is empty");
  if (got >= word_bytes) check_magic(reader, big_endian(header), static_cast<std::uint32_t>(dimensions));
  if (got < header.size())
    reader.fail("is truncated: " + std::to_string(header.size()) + " bytes of header expected, " + std::to_string(got) +
                " found; fetch it again");
  std::vector<std::int64_t> sizes;
  for (std::size_t i = word_bytes; i < header.size(); i += word_bytes)
    sizes.push_back(big_endian(std::span(header).subspan(i)));
  return sizes;
}

std::int64_t product(const Reader& reader, const std::vector<std::int64_t>& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) {
    if (size == 0) reader.fail("is empty: its header says that a dimension has size 0");
    if (result > std::numeric_limits<std::int64_t>::max() / size)
      reader.fail("has a damaged header: it announces more data than can exist");
    result *= size;
  }
  return result;
}

/// Reads piece by piece, so that memory stays in proportion to the file, whatever a damaged header announces.
std::vector<std::uint8_t> read_data(Reader& reader, std::int64_t expected) {
  constexpr std::size_t first_piece = std::size_t{64} << 10;
  const auto wanted = static_cast<std::size_t>(expected);
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < wanted) {
    const std::size_t before = bytes.size();
    try {
      bytes.resize(std::min(std::max(first_piece, 2 * before), wanted));
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::io,
                  reader.path() + " holds " + std::to_string(expected) +
                      " bytes of data, for which there is not enough memory; take a smaller data set, or "
                      "start fewer ranks on each host");
    }
    const std::size_t got = reader.read(std::span(bytes).subspan(before));
    if (before + got < bytes.size())
      reader.fail("is truncated: " + std::to_string(expected) + " bytes of data expected, " +
                  std::to_string(before + got) + " found; fetch it again");
  }
  std::array<std::uint8_t, 1> more{};
  if (reader.read(more) != 0)
    reader.fail("holds more than the " + std::to_string(expected) + " bytes of data that its header announces");
  return bytes;
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, int dimensions) {
  Reader reader(path);
  IdxFile file;
  file.sizes = read_sizes(reader, dimensions);
  file.bytes = read_data(reader, product(reader, file.sizes));
  return file;
}

}  // namespace lockstep::vision
