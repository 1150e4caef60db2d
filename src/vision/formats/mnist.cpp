// SPDX-License-Identifier: Apache-2.0
// MNIST and other data sets of its form, of any image size and number of classes: four files, each with or without .gz,
// or with a dot before "idx" as unpacked by some tools. There are ten classes, or with SourceOptions::counts_classes as
// many as the labels of the training part say, unless the folder has a file classes.txt: then they are its lines, and
// labels may be as large as these allow.
#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/idx.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/memory_source.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;
using data::Images;
using data::ImageShape;

constexpr const char* names_file = "classes.txt";
constexpr std::int64_t usual_classes = 10;

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

/// Returns the path of a file that exists; empty if none does.
/// @param part  "train" or "t10k" @param kind  "images-idx3" or "labels-idx1"
fs::path mnist_file(const fs::path& dir, const std::string& part, const std::string& kind) {
  for (const std::string& file_name : names_of_file(part, kind)) {
    std::error_code ignored;  // what is there and cannot be read fails when it is opened
    if (fs::status(dir / file_name, ignored).type() != fs::file_type::not_found) return dir / file_name;
  }
  return {};
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

/// Returns the names in the file classes.txt; none if there is no such file.
std::vector<std::string> mnist_class_names(const fs::path& dir) {
  std::error_code ignored;
  const fs::path path = dir / names_file;
  return fs::exists(path, ignored) ? parse_class_names(read_lines_of(path), path.string()) : std::vector<std::string>();
}

/// Refuses labels that are no class. @param classes  their number if classes.txt names them; 0: MNIST's ten
void check_labels(const Images& images, const fs::path& dir, const std::string& part, std::int64_t classes) {
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

/// The images of both parts. Without the training part, `train` has no images.
struct MnistImages {
  Images train;
  Images test;
};

MnistImages load_test_part(const fs::path& dir, std::int64_t classes) {
  MnistImages images{.train = {}, .test = read_part(dir, "t10k")};
  check_labels(images.test, dir, "t10k", classes);
  images.test.classes = classes > 0 ? classes : usual_classes;
  return images;
}

/// @param named  number of the classes that classes.txt names; 0 without it
MnistImages load_both_parts(const fs::path& dir, std::int64_t named) {
  MnistImages images{read_part(dir, "train"), read_part(dir, "t10k")};
  if (named > 0) {
    check_labels(images.train, dir, "train", named);
    check_labels(images.test, dir, "t10k", named);
  }
  images.train.classes = images.test.classes = named > 0 ? named : largest_label(images.train) + 1;
  check_fit(images.train, images.test, dir);
  if (named == 0) {
    check_classes(images.train, images.test, dir);
    check_labels(images.train, dir, "train", named);
  }
  return images;
}

bool has_training_file(const fs::path& dir) {
  return !mnist_file(dir, "train", "images-idx3").empty() || !mnist_file(dir, "train", "labels-idx1").empty();
}

}  // namespace

std::string why_not_mnist(const fs::path& data) {
  for (const char* part : {"train", "t10k"})
    for (const char* kind : {"images-idx3", "labels-idx1"})
      if (!mnist_file(data, part, kind).empty()) return "";
  return "it has no file train-images-idx3-ubyte, nor one of the other three";
}

Parts open_mnist(const SourceOptions& options) {
  const fs::path& dir = options.data;
  require_own_parts(options, "mnist");
  check_directory(dir);
  std::vector<std::string> names = mnist_class_names(dir);
  const bool loads_test_only = options.evaluates_only && !has_training_file(dir);
  MnistImages images =
      loads_test_only ? load_test_part(dir, std::ssize(names)) : load_both_parts(dir, std::ssize(names));
  const std::int64_t unnamed = options.counts_classes ? images.test.classes : usual_classes;
  if (names.empty())
    for (std::int64_t label = 0; label < unnamed; ++label) names.push_back(std::to_string(label));
  const auto part_of = [&](Images& part, const char* name) {
    return memory_part(std::move(part), names, {{0, mnist_file(dir, name, "images-idx3")}});
  };
  return {part_of(images.train, "train"), part_of(images.test, "t10k")};
}

}  // namespace lockstep::vision
