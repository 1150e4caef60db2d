// SPDX-License-Identifier: Apache-2.0
// MNIST and CIFAR-10: files of pixels, read by the loaders of the data sets of these names.
#include <algorithm>
#include <system_error>

#include "data/images_pair.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/image/color.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

/// A file with the number of its first picture in its part.
struct PixelFile {
  std::int64_t first = 0;
  fs::path path;
};

/// Pictures that are held in memory, channel by channel.
class PixelSource final : public Source {
 public:
  PixelSource(std::string format, data::Images images, std::vector<PixelFile> files, std::vector<std::string> names)
      : format_(std::move(format)), images_(std::move(images)), files_(std::move(files)), names_(std::move(names)) {
    for (const std::int32_t label : images_.labels) annotations_.push_back({.label = label});
  }

  [[nodiscard]] std::string format() const override { return format_; }
  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override {
    return annotations_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::string place(std::int64_t sample) const override {
    return file_of(sample).path.string() + number_text(sample);
  }
  [[nodiscard]] std::string relative_place(std::int64_t sample) const override {
    return file_of(sample).path.filename().string() + number_text(sample);
  }
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override {
    const auto image = std::as_bytes(images_.image(sample));
    bytes.assign(image.begin(), image.end());
  }
  void decode(std::int64_t /*sample*/, std::span<const std::byte> bytes, const DecodeOptions& options,
              Image& picture) const override;

 private:
  [[nodiscard]] const PixelFile& file_of(std::int64_t sample) const {
    const auto after = std::upper_bound(files_.begin(), files_.end(), sample,
                                        [](std::int64_t number, const PixelFile& file) { return number < file.first; });
    return *std::prev(after);
  }
  [[nodiscard]] std::string number_text(std::int64_t sample) const {
    return ", image " + std::to_string(sample - file_of(sample).first);
  }

  std::string format_;
  data::Images images_;
  std::vector<PixelFile> files_;
  std::vector<std::string> names_;
  std::vector<Annotation> annotations_;
};

void PixelSource::decode(std::int64_t /*sample*/, std::span<const std::byte> bytes, const DecodeOptions& options,
                         Image& picture) const {
  const auto stored = static_cast<std::size_t>(images_.shape.channels);
  const auto plane = static_cast<std::size_t>(images_.shape.pixels());
  const bool repeats_gray = stored == 1 && options.channels == 3;
  const std::size_t channels = repeats_gray ? 3 : stored;
  picture.resize(static_cast<int>(images_.shape.width), static_cast<int>(images_.shape.height),
                 static_cast<int>(channels));
  for (std::size_t channel = 0; channel < channels; ++channel)
    for (std::size_t i = 0; i < plane; ++i)
      picture.pixels[i * channels + channel] =
          static_cast<std::uint8_t>(bytes[(repeats_gray ? 0 : channel * plane) + i]);
  if (options.channels == 1 && channels == 3) to_gray(picture);
}

Part part_of(const std::string& format, data::Images images, std::vector<PixelFile> files,
             const std::vector<std::string>& names) {
  if (images.size() == 0) return {};
  return {std::make_shared<PixelSource>(format, std::move(images), std::move(files), names), {}};
}

/// Refuses options that these formats, whose files say which the parts are, have no use for.
void require_own_parts(const SourceOptions& options, std::string_view format) {
  if (!options.val.empty() || options.val_split > 0)
    throw Error(ErrorCode::invalid_argument, "the format " + std::string(format) + " of " + shown(options.data) +
                                                 " has a validation part of its own; name no other one");
}

/// Returns the names of the classes: those of a checkpoint, of a file, or the usual ones.
std::vector<std::string> names_or(const SourceOptions& options, const fs::path& file, std::vector<std::string> usual) {
  std::error_code ignored;
  std::vector<std::string> own =
      fs::exists(file, ignored) ? parse_class_names(read_lines_of(file), file.string()) : std::move(usual);
  if (!options.class_names.empty() && options.class_names.size() != own.size())
    throw Error(ErrorCode::invalid_argument, shown(options.data) + " has " + std::to_string(own.size()) +
                                                 " classes, and the checkpoint has " +
                                                 std::to_string(options.class_names.size()));
  return options.class_names.empty() ? own : options.class_names;
}

data::LoadedParts parts_to_load(const SourceOptions& options, bool has_training) {
  const bool loads_test_only = !has_training && options.evaluates_only;  // else the loader says what is missing
  return loads_test_only ? data::LoadedParts::test : data::LoadedParts::both;
}

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

std::string why_not_mnist(const fs::path& data) {
  for (const char* part : {"train", "t10k"})
    for (const char* kind : {"images-idx3", "labels-idx1"})
      if (!data::mnist_file(data, part, kind).empty()) return "";
  return "it has no file train-images-idx3-ubyte, nor one of the other three";
}

Parts open_mnist(const SourceOptions& options) {
  require_own_parts(options, "mnist");
  const bool has_training = !data::mnist_file(options.data, "train", "images-idx3").empty() ||
                            !data::mnist_file(options.data, "train", "labels-idx1").empty();
  data::ImagesPair pair = data::load_mnist(options.data, parts_to_load(options, has_training));
  const std::vector<std::string> names =
      names_or(options, options.data / "classes.txt", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  const auto files = [&](const char* part) {
    return std::vector<PixelFile>{{0, data::mnist_file(options.data, part, "images-idx3")}};
  };
  return {part_of("mnist", std::move(pair.train), files("train"), names),
          part_of("mnist", std::move(pair.test), files("t10k"), names)};
}

std::string why_not_cifar10(const fs::path& data) {
  if (!state_of(data).is_folder) return "it is not a folder";
  const data::Cifar10Files files = data::cifar10_files(data);
  return has_file(files.train.front()) || has_file(files.test) ? ""
                                                               : "it has no file data_batch_1.bin or test_batch.bin";
}

Parts open_cifar10(const SourceOptions& options) {
  require_own_parts(options, "cifar10");
  const data::Cifar10Files paths = data::cifar10_files(options.data);
  const bool has_training = std::any_of(paths.train.begin(), paths.train.end(), has_file);
  data::ImagesPair pair = data::load_cifar10(options.data, parts_to_load(options, has_training));
  const std::vector<std::string> names =
      names_or(options, paths.test.parent_path() / "batches.meta.txt",
               {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"});
  std::vector<PixelFile> train_files;
  std::int64_t first = 0;
  for (const fs::path& path : paths.train) {
    train_files.push_back({first, path});
    first += state_of(path).bytes / (1 + pair.test.shape.elements());
  }
  return {part_of("cifar10", std::move(pair.train), std::move(train_files), names),
          part_of("cifar10", std::move(pair.test), {{0, paths.test}}, names)};
}

}  // namespace lockstep::vision
