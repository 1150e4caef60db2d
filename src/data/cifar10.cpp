// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "base/text_file.hpp"
#include "data/images_pair.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

constexpr ImageShape cifar_shape{3, 32, 32};
constexpr int cifar_classes = 10;
constexpr std::size_t record_bytes = 1 + 3 * 32 * 32;

constexpr std::string_view where_it_is =
    "; give the folder that holds data_batch_1.bin … data_batch_5.bin and test_batch.bin (mpi-scripts/cifar10.py makes "
    "them of a folder of images)";

constexpr std::string_view again = "; fetch it again, or make it again with mpi-scripts/cifar10.py";

std::filesystem::path folder_of(const std::filesystem::path& given) {
  if (given.empty())
    throw Error(ErrorCode::invalid_argument, "the data set \"cifar10\" is read from files" + std::string(where_it_is));
  const std::string why = why_no_folder(given.string());
  if (!why.empty()) throw Error(ErrorCode::io, given.string() + ' ' + why + std::string(where_it_is));
  std::error_code error;
  std::filesystem::path below = given / "cifar-10-batches-bin";
  return std::filesystem::is_directory(below, error) ? below : given;
}

[[noreturn]] void refuse_to_read(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::io, "cannot read " + path.string() + ": " + reason + std::string(where_it_is));
}

/// Returns the number of records of a file. @throws Error{corrupt} unless the file consists of one or more whole
/// records
std::size_t records_in(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) refuse_to_read(path, error.message());
  if (bytes == 0) throw Error(ErrorCode::corrupt, path.string() + " is empty" + std::string(again));
  if (bytes % record_bytes != 0)
    throw Error(ErrorCode::corrupt, path.string() + " has " + std::to_string(bytes) +
                                        " bytes, not a number of records of " + std::to_string(record_bytes) +
                                        " (a label and 3×32×32 pixels)" + std::string(again));
  return bytes / record_bytes;
}

void append_batch(Images& images, const std::filesystem::path& path) {
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

}  // namespace

Cifar10Files cifar10_files(const std::filesystem::path& data_dir) {
  const std::filesystem::path folder = folder_of(data_dir);
  Cifar10Files files{.test = folder / "test_batch.bin"};
  for (int batch = 1; batch <= 5; ++batch)
    files.train.push_back(folder / ("data_batch_" + std::to_string(batch) + ".bin"));
  return files;
}

ImagesPair load_cifar10(const std::filesystem::path& data_dir, LoadedParts parts) {
  const Cifar10Files files = cifar10_files(data_dir);
  const Images empty{.name = "cifar10", .shape = cifar_shape, .classes = cifar_classes};
  ImagesPair pair{empty, empty};
  if (parts == LoadedParts::both)
    for (const std::filesystem::path& file : files.train) append_batch(pair.train, file);
  append_batch(pair.test, files.test);
  return pair;
}

}  // namespace lockstep::data
