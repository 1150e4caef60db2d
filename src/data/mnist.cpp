// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/text_file.hpp"
#include "data/images_pair.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* names_file = "classes.txt";

constexpr std::string_view advice =
    "; give the folder that holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte (each may end in .gz)";

void check_directory(const fs::path& dir) {
  if (dir.empty())
    throw Error(ErrorCode::invalid_argument, "the data set \"mnist\" is read from files" + std::string(advice));
  const std::string why = why_no_folder(dir.string());
  if (!why.empty()) throw Error(ErrorCode::io, dir.string() + ' ' + why + std::string(advice));
}

/// The possible names of a file of a part. @param kind  "images-idx3" or "labels-idx1"
std::array<std::string, 4> names_of_file(const std::string& part, std::string kind) {
  const std::string standard = part + "-" + kind + "-ubyte";
  kind[kind.rfind('-')] = '.';
  const std::string dotted = part + "-" + kind + "-ubyte";
  return {standard, standard + ".gz", dotted, dotted + ".gz"};
}

fs::path find_file(const fs::path& dir, const std::string& part, const std::string& kind) {
  fs::path found = mnist_file(dir, part, kind);
  if (!found.empty()) return found;
  const std::array<std::string, 4> names = names_of_file(part, kind);
  throw Error(ErrorCode::io, (dir / names[0]).string() + " does not exist, nor " + names[1] + ", " + names[2] + " or " +
                                 names[3] + std::string(advice));
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
                                        "classes from 0 without gaps, and name more than ten in classes.txt");
  for (std::size_t label = 0; label < counts.size(); ++label) {
    const bool is_rare = counts[label] > 0 && 100 * counts[label] * used <= train.size();
    if (is_rare && test_counts[label] == 0)
      throw Error(ErrorCode::corrupt, label_text(train, dir, "train", static_cast<std::int64_t>(label)) + ", which " +
                                          std::to_string(counts[label]) + " of " + std::to_string(train.size()) +
                                          " training images have and no test image: it is damaged; fetch it again, or "
                                          "leave these images out");
  }
}

/// Returns the number of classes that the file classes.txt names, one on each line; 0 if there is none.
std::int64_t named_classes(const fs::path& dir) {
  std::error_code ignored;
  const fs::path path = dir / names_file;
  if (!fs::exists(path, ignored)) return 0;
  std::istringstream text(read_text(path.string()));
  std::int64_t classes = 0;
  for (std::string line; std::getline(text, line);)
    classes += line.find_first_not_of(" \t\r\v\f") == std::string::npos ? 0 : 1;
  if (classes == 0) throw Error(ErrorCode::corrupt, path.string() + " names no class");
  return classes;
}

/// Refuses labels that are no class. @param classes  their number if classes.txt names them; 0: MNIST's ten
void check_labels(const Images& images, const fs::path& dir, const std::string& part, std::int64_t classes) {
  constexpr std::int64_t usual_classes = 10;
  const std::int64_t label = largest_label(images);
  if (classes > 0 && label >= classes)
    throw Error(ErrorCode::corrupt, label_text(images, dir, part, label) + ", which is none of the " +
                                        std::to_string(classes) + " classes that " + names_file + " names");
  if (classes == 0 && label >= usual_classes)
    throw Error(ErrorCode::corrupt, label_text(images, dir, part, label) +
                                        ", where 0 to 9 can stand: it is damaged; fetch it again. If the data set has "
                                        "more classes, name each on a line of " +
                                        (dir / names_file).string());
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

ImagesPair load_test_part(const fs::path& dir, std::int64_t classes) {
  constexpr std::int64_t usual_classes = 10;
  ImagesPair pair{.test = read_part(dir, "t10k")};
  check_labels(pair.test, dir, "t10k", classes);
  pair.test.classes = classes > 0 ? classes : usual_classes;
  pair.train = {.name = pair.test.name, .shape = pair.test.shape, .classes = pair.test.classes};
  return pair;
}

}  // namespace

fs::path mnist_file(const fs::path& data_dir, const std::string& part, std::string kind) {
  for (const std::string& file_name : names_of_file(part, std::move(kind))) {
    std::error_code ignored;  // what is there and cannot be read fails when it is opened
    if (fs::status(data_dir / file_name, ignored).type() != fs::file_type::not_found) return data_dir / file_name;
  }
  return {};
}

ImagesPair load_mnist(const fs::path& data_dir, LoadedParts parts) {
  check_directory(data_dir);
  const std::int64_t named = named_classes(data_dir);
  if (parts == LoadedParts::test) return load_test_part(data_dir, named);
  ImagesPair pair{read_part(data_dir, "train"), read_part(data_dir, "t10k")};
  if (named > 0) {
    check_labels(pair.train, data_dir, "train", named);
    check_labels(pair.test, data_dir, "t10k", named);
  }
  pair.train.classes = pair.test.classes = named > 0 ? named : largest_label(pair.train) + 1;
  check_fit(pair.train, pair.test, data_dir);
  if (named == 0) {
    check_classes(pair.train, pair.test, data_dir);
    check_labels(pair.train, data_dir, "train", named);
  }
  return pair;
}

}  // namespace lockstep::data
