// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <system_error>

#include "base/text_file.hpp"
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
  const std::string why = why_no_folder(dir.string());
  if (!why.empty()) throw Error(ErrorCode::io, dir.string() + ' ' + why + std::string(advice));
}

/// Returns the file of a part, under the first of its possible names that exists. @param kind  "images-idx3" or
/// "labels-idx1"
fs::path find_file(const fs::path& dir, const std::string& part, std::string kind) {
  const std::string standard = part + "-" + kind + "-ubyte";
  kind[kind.rfind('-')] = '.';
  const std::string dotted = part + "-" + kind + "-ubyte";
  for (const std::string& file_name : {standard, standard + ".gz", dotted, dotted + ".gz"}) {
    std::error_code ignored;  // what is there and cannot be read fails when it is opened
    if (fs::status(dir / file_name, ignored).type() != fs::file_type::not_found) return dir / file_name;
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
                                        " labels; they do not belong together: fetch both again");
  Images result{.name = "mnist", .shape = {1, images.sizes[1], images.sizes[2]}};
  result.images = std::move(images.bytes);
  result.labels.assign(labels.bytes.begin(), labels.bytes.end());
  return result;
}

std::int64_t largest_label(const Images& images) {
  return *std::max_element(images.labels.begin(), images.labels.end());
}

/// Returns "FILE has a label 12 (first of image 17)".
std::string label_text(const Images& images, const fs::path& dir, const std::string& part, std::int64_t label) {
  const auto first = std::find(images.labels.begin(), images.labels.end(), label);
  return find_file(dir, part, "labels-idx1").string() + " has a label " + std::to_string(label) + " (first of image " +
         std::to_string(first - images.labels.begin()) + ")";
}

std::vector<std::int64_t> images_of_classes(const Images& images, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const auto label : images.labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

/// Checks the classes. They are numbered from 0 to the largest label, so a damaged label makes classes that no image or
/// almost none has. A small part of a data set may lack a class by chance.
void check_classes(const Images& train, const Images& test, const fs::path& dir) {
  const std::vector<std::int64_t> counts = images_of_classes(train, train.classes);
  const std::vector<std::int64_t> test_counts = images_of_classes(test, train.classes);
  const auto unused = std::count(counts.begin(), counts.end(), 0);
  const std::int64_t used = train.classes - unused;
  const bool is_chance = train.size() < 5 * train.classes && 2 * used > train.classes;
  if (unused > 0 && !is_chance)
    throw Error(ErrorCode::corrupt, label_text(train, dir, "train", train.classes - 1) + ", which makes " +
                                        std::to_string(train.classes) + " classes, but only " + std::to_string(used) +
                                        " of them have training images: it is damaged; fetch it again, or number the "
                                        "classes from 0 without gaps");
  for (std::size_t label = 0; label < counts.size(); ++label) {
    const bool is_rare = counts[label] > 0 && 100 * counts[label] * used <= train.size();
    if (is_rare && test_counts[label] == 0)
      throw Error(ErrorCode::corrupt, label_text(train, dir, "train", static_cast<std::int64_t>(label)) + ", which " +
                                          std::to_string(counts[label]) + " of " + std::to_string(train.size()) +
                                          " training images have and no test image: it is damaged; fetch it again, or "
                                          "leave these images out");
  }
}

std::string size_text(const ImageShape& shape) {
  return std::to_string(shape.height) + "×" + std::to_string(shape.width);
}

void check_fit(const Images& train, const Images& test, const fs::path& dir) {
  if (train.shape != test.shape)
    throw Error(ErrorCode::corrupt, "the training images in " + dir.string() + " are " + size_text(train.shape) +
                                        " pixels but the test images " + size_text(test.shape));
  if (const std::int64_t label = largest_label(test); label >= train.classes)
    throw Error(ErrorCode::corrupt, label_text(test, dir, "t10k", label) +
                                        ", which no training image has: the largest label there is " +
                                        std::to_string(train.classes - 1) + "; fetch it again");
}

}  // namespace

ImagesPair load_mnist(const fs::path& data_dir) {
  check_directory(data_dir);
  ImagesPair pair{read_part(data_dir, "train"), read_part(data_dir, "t10k")};
  pair.train.classes = pair.test.classes = largest_label(pair.train) + 1;
  check_fit(pair.train, pair.test, data_dir);
  check_classes(pair.train, pair.test, data_dir);
  return pair;
}

}  // namespace lockstep::data
