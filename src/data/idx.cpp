// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "data/images_pair.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

constexpr std::size_t word_bytes = 4;
constexpr std::uint32_t unsigned_byte_magic = 0x00000800;  // plus the number of dimensions

/// Reads a file through zlib, which returns the contents of a file that is not gzipped unchanged.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path.string()), file_(gzopen(path_.c_str(), "rb")) {
    if (!file_) throw Error(ErrorCode::io, "cannot open " + path_ + ": " + std::strerror(errno));
  }

  /// Reads until `into` is full or the file ends; returns the number of bytes read.
  std::size_t read(std::span<std::uint8_t> into) {
    std::size_t done = 0;
    while (done < into.size()) {
      const auto step = static_cast<unsigned>(std::min<std::size_t>(into.size() - done, 1U << 20));
      const int got = gzread(file_.get(), into.data() + done, step);
      if (got <= 0) {
        check();
        break;
      }
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorCode::corrupt, path_ + " " + what); }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  /// Checks zlib's error state, which says at the end of the data whether they were complete.
  void check() const {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return;
    if (code == Z_ERRNO) throw Error(ErrorCode::io, "cannot read " + path_ + ": " + std::strerror(errno));
    if (code == Z_BUF_ERROR) fail("is truncated: its gzip stream ends too early; fetch it again");
    fail("is damaged: its gzip stream cannot be unpacked (" + std::string(text) + "); fetch it again");
  }

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
         std::uint32_t{bytes[3]};
}

std::string hexadecimal(std::uint32_t value) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += digits[value >> shift & 0xf];
  return text;
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
  const std::string numbers = " (magic number " + hexadecimal(magic) + ", expected " + hexadecimal(expected) + ")";
  const std::uint32_t found_dimensions = magic & 0xff;
  const std::uint32_t found_type = magic >> 8 & 0xff;
  if (magic >> 16 != 0 || found_type < 0x08 || found_type > 0x0e) reader.fail("is not an IDX file" + numbers);
  if (found_type != unsigned_byte_magic >> 8) reader.fail("holds elements that are not unsigned bytes" + numbers);
  reader.fail("holds " + kind(found_dimensions) + " where " + kind(dimensions) + " are expected" + numbers);
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

/// Reads piece by piece, so that a damaged header which announces terabytes does not cause a huge allocation.
std::vector<std::uint8_t> read_data(Reader& reader, std::int64_t expected) {
  constexpr std::size_t piece = std::size_t{64} << 20;
  const auto wanted = static_cast<std::size_t>(expected);
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < wanted) {
    const std::size_t before = bytes.size();
    try {
      bytes.resize(before + std::min(piece, wanted - before));
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

}  // namespace lockstep::data
