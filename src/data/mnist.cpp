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
#include <system_error>
#include <utility>

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

namespace fs = std::filesystem;

constexpr std::string_view advice =
    "; give the folder that holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte (each may end in .gz)";

void check_directory(const fs::path& dir) {
  if (dir.empty())
    throw Error(ErrorCode::invalid_argument, "the data set \"mnist\" is read from files" + std::string(advice));
  std::error_code error;
  if (!fs::is_directory(dir, error))
    throw Error(ErrorCode::io,
                dir.string() + (fs::exists(dir, error) ? " is not a folder" : " does not exist") + std::string(advice));
}

/// Returns the file of a part, under the first of its possible names that exists. @param kind  "images-idx3" or
/// "labels-idx1"
fs::path find_file(const fs::path& dir, const std::string& part, std::string kind) {
  const std::string standard = part + "-" + kind + "-ubyte";
  kind[kind.rfind('-')] = '.';
  const std::string dotted = part + "-" + kind + "-ubyte";
  for (const std::string& file_name : {standard, standard + ".gz", dotted, dotted + ".gz"}) {
    std::error_code error;
    if (fs::exists(dir / file_name, error)) return dir / file_name;
  }
  throw Error(ErrorCode::io, (dir / standard).string() + " does not exist, nor " + standard + ".gz, " + dotted +
                                 " or " + dotted + ".gz" + std::string(advice));
}

Images read_part(const fs::path& dir, const std::string& part) {
  const fs::path image_path = find_file(dir, part, "images-idx3");
  const fs::path label_path = find_file(dir, part, "labels-idx1");
  IdxFile images = read_idx(image_path, 3);
  const IdxFile labels = read_idx(label_path, 1);
  if (images.sizes[0] != labels.sizes[0])
    throw Error(ErrorCode::corrupt, image_path.string() + " holds " + std::to_string(images.sizes[0]) + " images but " +
                                        label_path.string() + " holds " + std::to_string(labels.sizes[0]) +
                                        " labels; they do not belong together");
  Images result{.name = "mnist", .shape = {1, images.sizes[1], images.sizes[2]}};
  result.images = std::move(images.bytes);
  result.labels.assign(labels.bytes.begin(), labels.bytes.end());
  return result;
}

std::int64_t largest_label(const Images& images) {
  return *std::max_element(images.labels.begin(), images.labels.end());
}

/// Checks the classes. They are numbered from 0 to the largest label, so a damaged label makes many that no image has.
void check_classes(const Images& train, const fs::path& dir) {
  std::vector<bool> has_image(static_cast<std::size_t>(train.classes));
  for (const auto label : train.labels) has_image[static_cast<std::size_t>(label)] = true;
  const auto used = std::count(has_image.begin(), has_image.end(), true);
  if (2 * used > train.classes) return;
  const auto last = std::find(train.labels.begin(), train.labels.end(), train.classes - 1);
  throw Error(ErrorCode::corrupt, find_file(dir, "train", "labels-idx1").string() + " has a label " +
                                      std::to_string(train.classes - 1) + " (first of image " +
                                      std::to_string(last - train.labels.begin()) + "), which makes " +
                                      std::to_string(train.classes) + " classes, but only " + std::to_string(used) +
                                      " of them have training images: it is damaged; fetch it again, or number the "
                                      "classes from 0 without gaps");
}

std::string size_text(const ImageShape& shape) {
  return std::to_string(shape.height) + "×" + std::to_string(shape.width);
}

void check_fit(const Images& train, const Images& test, const fs::path& dir) {
  if (train.shape != test.shape)
    throw Error(ErrorCode::corrupt, "the training images in " + dir.string() + " are " + size_text(train.shape) +
                                        " pixels but the test images " + size_text(test.shape));
  if (const std::int64_t label = largest_label(test); label >= train.classes)
    throw Error(ErrorCode::corrupt, "the test labels in " + dir.string() + " contain " + std::to_string(label) +
                                        ", which no training image has: the largest label there is " +
                                        std::to_string(train.classes - 1));
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, int dimensions) {
  Reader reader(path);
  IdxFile file;
  file.sizes = read_sizes(reader, dimensions);
  file.bytes = read_data(reader, product(reader, file.sizes));
  return file;
}

ImagesPair load_mnist(const fs::path& data_dir) {
  check_directory(data_dir);
  ImagesPair pair{read_part(data_dir, "train"), read_part(data_dir, "t10k")};
  pair.train.classes = pair.test.classes = largest_label(pair.train) + 1;
  check_classes(pair.train, data_dir);
  check_fit(pair.train, pair.test, data_dir);
  return pair;
}

}  // namespace lockstep::data
