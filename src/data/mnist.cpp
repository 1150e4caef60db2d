// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "data/images_pair.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

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

ImagesPair load_mnist(const fs::path& data_dir) {
  check_directory(data_dir);
  ImagesPair pair{read_part(data_dir, "train"), read_part(data_dir, "t10k")};
  pair.train.classes = pair.test.classes = largest_label(pair.train) + 1;
  check_classes(pair.train, data_dir);
  check_fit(pair.train, pair.test, data_dir);
  return pair;
}

}  // namespace lockstep::data
