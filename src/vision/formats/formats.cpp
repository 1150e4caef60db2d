// SPDX-License-Identifier: Apache-2.0
// The table of formats, and how the format of data is recognized.
#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/source/class_names.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

/// The first one that recognizes data opens them. Those that look for particular names come first.
constexpr std::array<DataFormat, 10> formats = {
    {{"mnist",
      "the files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
      "t10k-labels-idx1-ubyte",
      why_not_mnist, open_mnist},
     {"cifar10", "the files data_batch_1.bin to data_batch_5.bin and test_batch.bin", why_not_cifar10, open_cifar10},
     {"voc", "the folders JPEGImages and Annotations", why_not_voc, open_voc},
     {"yolo", "a file such as data.yaml, or the folders images and labels and the file classes.txt", why_not_yolo,
      open_yolo},
     {"coco", "annotations/*.json or train/_annotations.coco.json, or such a file", why_not_coco, open_coco},
     {"rec_gt",
      "rec_gt_train.txt, rec_gt.txt or rec_gt_val.txt with a path, a tab and a text on each line, or one such file",
      why_not_rec_gt, open_rec_gt},
     {"masks",
      "train.txt and val.txt with a picture and its mask on each line, one such file, the folders images and masks, "
      "leftImg8bit and gtFine, or JPEGImages and SegmentationClass",
      why_not_masks, open_masks},
     {"list", "train_list.txt and val_list.txt with a path and the number of a class on each line, or one such file",
      why_not_list, open_list},
     {"folder", "train/CLASS and val/CLASS or test/CLASS with pictures, or one folder of classes", why_not_folder,
      open_folder},
     {"lmdb", "folders with a file data.mdb, in training and validation or elsewhere", why_not_lmdb, open_lmdb_data}}};

/// Lists what lies in a folder, shortened: "2 folders (a, b) and 1 file (c.txt)".
std::string contents_of(const fs::path& folder) {
  constexpr std::size_t most_named = 5;
  std::vector<std::string> folders;
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    (entry->is_directory(ignored) ? folders : files).push_back(echo(entry->path().filename().string(), 40));
  }
  const auto text = [&](std::vector<std::string>& names, const std::string& what) {
    std::sort(names.begin(), names.end());
    std::string list = std::to_string(names.size()) + ' ' + what + (names.size() == 1 ? "" : "s");
    for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) list += (i == 0 ? " (" : ", ") + names[i];
    return names.empty() ? list : list + (names.size() > most_named ? ", …)" : ")");
  };
  return text(folders, "folder") + " and " + text(files, "file");
}

/// @throws Error{io} unless data are a folder that can be read, or a file
void require_data(const fs::path& data) {
  if (data.empty()) throw Error(ErrorCode::invalid_argument, "no data are named; give a folder or a file");
  const FileState state = state_of(data);
  if (state.why_not.empty()) return;
  const std::string why = state.is_folder ? why_no_folder(data.string()) : state.why_not;
  if (!why.empty()) throw Error(ErrorCode::io, shown(data) + ' ' + why + "; give the folder or file of your data");
}

const DataFormat& format_of_name(std::string_view name) {
  const auto* format =
      std::find_if(formats.begin(), formats.end(), [&](const DataFormat& row) { return row.name == name; });
  if (format == formats.end()) throw Error(ErrorCode::invalid_argument, unknown("data format", name, format_names()));
  return *format;
}

const DataFormat& named_format(const SourceOptions& options) {
  const DataFormat& format = format_of_name(options.format);
  const std::string why = format.why_not(options.data);
  if (why.empty()) return format;
  throw Error(ErrorCode::invalid_argument, shown(options.data) + " is not of the format " + options.format +
                                               ", which needs " + std::string(format.looks_for) + ": " + why);
}

const DataFormat& recognized_format(const SourceOptions& options) {
  std::string looked_for;
  for (const DataFormat& format : formats) {
    const std::string why = format.why_not(options.data);
    if (why.empty()) return format;
    looked_for += "; " + std::string(format.name) + " needs " + std::string(format.looks_for) + ", but " + why;
  }
  std::error_code ignored;
  const std::string holds = fs::is_directory(options.data, ignored) ? ", which holds " + contents_of(options.data) : "";
  throw Error(ErrorCode::invalid_argument,
              "no format is recognized in " + shown(options.data) + holds + looked_for +
                  "; arrange the files in one of these ways, or name the format to learn more");
}

/// Notes validation samples that are training samples, too.
Finding find_in_both(const Source& train, const Source& val) {
  const auto hash_at = [](const Source& source, std::int64_t sample) {
    Fnv1a hash;
    hash.add(normal(source.place(sample)));
    return hash.value();
  };
  std::vector<std::uint64_t> hashes;
  for (std::int64_t sample = 0; sample < train.size(); ++sample) hashes.push_back(hash_at(train, sample));
  std::sort(hashes.begin(), hashes.end());
  Finding found;
  for (std::int64_t sample = 0; sample < val.size(); ++sample)
    if (std::binary_search(hashes.begin(), hashes.end(), hash_at(val, sample))) found.add(val.place(sample));
  return found;
}

}  // namespace

Sources open_sources(const SourceOptions& options) {
  require_data(options.data);
  const DataFormat& format = options.format.empty() ? recognized_format(options) : named_format(options);
  Parts parts = format.open(options);
  if (!options.class_names.empty())
    for (Part* part : {&parts.train, &parts.val})
      if (part->source) part->source = with_class_names(std::move(part->source), options.class_names);
  const Source& main = parts.train.source ? *parts.train.source : *parts.val.source;
  Survey survey{.format = main.format(), .place = options.data.string(), .class_names = main.class_names()};
  if (parts.train.source) survey.train = survey_of(*parts.train.source, std::move(parts.train.notes));
  if (parts.val.source) survey.val = survey_of(*parts.val.source, std::move(parts.val.notes));
  if (parts.train.source && parts.val.source) survey.in_both = find_in_both(*parts.train.source, *parts.val.source);
  return {{std::move(parts.train.source), std::move(parts.val.source)}, std::move(survey)};
}

SourcePair open_format(std::string_view format, const std::filesystem::path& data) {
  Parts parts = format_of_name(format).open({.data = data, .counts_classes = true});
  return {std::move(parts.train.source), std::move(parts.val.source)};
}

std::vector<std::string_view> format_names() {
  std::vector<std::string_view> names;
  for (const DataFormat& format : formats) names.push_back(format.name);
  return names;
}

}  // namespace lockstep::vision
