// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 in its binary format: data_batch_1.bin … data_batch_5.bin and test_batch.bin, with records of a label and
// the red, green and blue pixels of a 32×32 image, row by row. The folder cifar-10-batches-bin may contain them.
// Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/files.hpp"
#include "vision/source/memory_source.hpp"

namespace lockstep::vision {

namespace {

namespace fs = std::filesystem;
using data::Images;

constexpr data::ImageShape cifar_shape{3, 32, 32};
constexpr int cifar_classes = 10;
constexpr std::size_t record_bytes = 1 + 3 * 32 * 32;

constexpr std::string_view where_it_is =
    "; give the folder that holds data_batch_1.bin … data_batch_5.bin and test_batch.bin (mpi-scripts/cifar10.py makes "
    "them of a folder of images)";

constexpr std::string_view again = "; fetch it again, or make it again with mpi-scripts/cifar10.py";

fs::path folder_of(const fs::path& given) {
  if (given.empty())
    throw Error(ErrorCode::invalid_argument, "the data set \"cifar10\" is read from files" + std::string(where_it_is));
  const std::string why = why_no_folder(given.string());
  if (!why.empty()) throw Error(ErrorCode::io, given.string() + ' ' + why + std::string(where_it_is));
  std::error_code error;
  fs::path below = given / "cifar-10-batches-bin";
  return fs::is_directory(below, error) ? below : given;
}

[[noreturn]] void refuse_to_read(const fs::path& path, const std::string& reason) {
  throw Error(ErrorCode::io, "cannot read " + path.string() + ": " + reason + std::string(where_it_is));
}

/// Returns the number of records of a file. @throws Error{corrupt} unless the file consists of one or more whole
/// records
std::size_t records_in(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) refuse_to_read(path, error.message());
  if (bytes == 0) throw Error(ErrorCode::corrupt, path.string() + " is empty" + std::string(again));
  if (bytes % record_bytes != 0)
    throw Error(ErrorCode::corrupt, path.string() + " has " + std::to_string(bytes) +
                                        " bytes, not a number of records of " + std::to_string(record_bytes) +
                                        " (a label and 3×32×32 pixels)" + std::string(again));
  return bytes / record_bytes;
}

void append_batch(Images& images, const fs::path& path) {
  const std::size_t records = records_in(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_to_read(path, std::strerror(errno));
  std::array<char, record_bytes> bytes{};
  for (std::size_t record = 0; record < records; ++record) {
    if (!file.read(bytes.data(), bytes.size()))
      refuse_to_read(path, "it ends, or fails, in record " + std::to_string(record) + " of " + std::to_string(records));
    const auto label = static_cast<std::uint8_t>(bytes[0]);
    if (label >= cifar_classes)
      throw Error(ErrorCode::corrupt,
                  path.string() + " has a label " + std::to_string(label) + " at byte " +
                      std::to_string(record * record_bytes) + " (image " + std::to_string(record) + ")" +
                      ", where 0 to 9 can stand: it is damaged, or not CIFAR-10's binary format" + std::string(again));
    images.labels.push_back(label);
    images.images.insert(images.images.end(), bytes.begin() + 1, bytes.end());
  }
}

/// The files of both parts, whether they exist or not.
struct Cifar10Files {
  std::vector<fs::path> train;
  fs::path test;
};

/// @throws Error{invalid_argument} if the path is empty; Error{io} if it is no folder
Cifar10Files cifar10_files(const fs::path& data) {
  const fs::path folder = folder_of(data);
  Cifar10Files files{.train = {}, .test = folder / "test_batch.bin"};
  for (int batch = 1; batch <= 5; ++batch)
    files.train.push_back(folder / ("data_batch_" + std::to_string(batch) + ".bin"));
  return files;
}

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Part load_part(const std::vector<fs::path>& paths, const std::vector<std::string>& names) {
  Images images{.name = "cifar10", .shape = cifar_shape, .classes = cifar_classes};
  std::vector<PixelFile> files;
  for (const fs::path& path : paths) {
    files.push_back({images.size(), path});
    append_batch(images, path);
  }
  return memory_part(std::move(images), names, std::move(files));
}

}  // namespace

std::string why_not_cifar10(const fs::path& data) {
  if (!state_of(data).is_folder) return "it is not a folder";
  const Cifar10Files files = cifar10_files(data);
  return has_file(files.train.front()) || has_file(files.test) ? ""
                                                               : "it has no file data_batch_1.bin or test_batch.bin";
}

Parts open_cifar10(const SourceOptions& options) {
  require_own_parts(options, "cifar10");
  const Cifar10Files files = cifar10_files(options.data);
  const fs::path names_file = files.test.parent_path() / "batches.meta.txt";
  const std::vector<std::string> names =
      has_file(names_file) ? parse_class_names(read_lines_of(names_file), names_file.string())
                           : std::vector<std::string>{"airplane", "automobile", "bird",  "cat",  "deer",
                                                      "dog",      "frog",       "horse", "ship", "truck"};
  if (std::ssize(names) != cifar_classes)
    throw Error(ErrorCode::corrupt,
                shown(names_file) + " names " + std::to_string(names.size()) + " classes; the data have ten");
  // Unless only the test part is evaluated, what is missing is an error.
  const bool loads_training = !options.evaluates_only || std::any_of(files.train.begin(), files.train.end(), has_file);
  Part train;
  if (loads_training) train = load_part(files.train, names);
  return {std::move(train), load_part({files.test}, names)};
}

}  // namespace lockstep::vision
