// SPDX-License-Identifier: Apache-2.0
#include "data/cifar10.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

constexpr ImageShape cifar_shape{3, 32, 32};
constexpr int cifar_classes = 10;

constexpr std::string_view where_it_is =
    "; give the folder that holds data_batch_1.bin … data_batch_5.bin and test_batch.bin (mpi-scripts/cifar10.py makes "
    "them of a folder of images)";

std::filesystem::path folder_of(const std::filesystem::path& given) {
  if (given.empty())
    throw Error(ErrorCode::invalid_argument, "the data set \"cifar10\" is read from files" + std::string(where_it_is));
  std::error_code error;
  std::filesystem::path below = given / "cifar-10-batches-bin";
  if (std::filesystem::is_directory(below, error)) return below;
  if (std::filesystem::is_directory(given, error)) return given;
  const bool exists = std::filesystem::exists(given, error);
  throw Error(ErrorCode::io,
              given.string() + (exists ? " is not a folder" : " does not exist") + std::string(where_it_is));
}

std::vector<char> read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(ErrorCode::io, "cannot open " + path.string() + ": " + std::strerror(errno) + std::string(where_it_is));
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) throw Error(ErrorCode::io, "cannot read " + path.string() + ": " + std::strerror(errno));
  return bytes;
}

void append_batch(Images& images, const std::filesystem::path& path) {
  const std::vector<char> bytes = read_whole(path);
  const auto elements = static_cast<std::size_t>(cifar_shape.elements());
  if (bytes.empty() || bytes.size() % (1 + elements) != 0)
    throw Error(ErrorCode::corrupt, path.string() + " has " + std::to_string(bytes.size()) +
                                        " bytes, not a number of records of " + std::to_string(1 + elements) +
                                        ": a label and 3×32×32 pixels; fetch it again");
  for (std::size_t record = 0; record < bytes.size(); record += 1 + elements) {
    const auto label = static_cast<std::uint8_t>(bytes[record]);
    if (label >= cifar_classes)
      throw Error(ErrorCode::corrupt, path.string() + " has a label " + std::to_string(label) + " at byte " +
                                          std::to_string(record) + "; there are 10 classes, 0 to 9");
    images.labels.push_back(label);
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(record) + 1;
    images.images.insert(images.images.end(), first, first + static_cast<std::ptrdiff_t>(elements));
  }
}

}  // namespace

ImagesPair load_cifar10(const std::filesystem::path& data_dir) {
  const std::filesystem::path folder = folder_of(data_dir);
  const Images empty{.name = "cifar10", .shape = cifar_shape, .classes = cifar_classes};
  ImagesPair pair{empty, empty};
  for (int batch = 1; batch <= 5; ++batch)
    append_batch(pair.train, folder / ("data_batch_" + std::to_string(batch) + ".bin"));
  append_batch(pair.test, folder / "test_batch.bin");
  return pair;
}

}  // namespace lockstep::data
