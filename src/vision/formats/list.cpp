// SPDX-License-Identifier: Apache-2.0
// Lists of pictures with the numbers of their classes, as PaddleClas has them.
#include <fcntl.h>

#include <algorithm>
#include <system_error>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> train_lists = {"train_list.txt", "train.txt"};
constexpr std::array<const char*, 4> val_lists = {"val_list.txt", "val.txt", "test_list.txt", "test.txt"};
constexpr std::array<const char*, 3> list_label_files = {"label_list.txt", "labels.txt", "classes.txt"};

/// Returns why a file is no list; empty if its first line is that of one. @cost reads the first 4 KiB
std::string why_no_list(const fs::path& file) {
  if (const FileState state = state_of(file); !state.why_not.empty()) return state.why_not;
  const Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 4096> head{};
  const ssize_t got = opened.open() ? ::read(opened.get(), head.data(), head.size()) : -1;
  if (got < 0) return "cannot be read: " + std::generic_category().message(errno);
  const std::string_view text(head.data(), static_cast<std::size_t>(got));
  try {
    TextLines lines(text, file.string());
    TextLine line;
    if (!lines.next(line)) return "has no lines";
    (void)parse_list(line.text, file.string());
  } catch (const Error&) {
    return "has a first line that is no path and number of a class";
  }
  return "";
}

/// The lists of the parts; empty where there is none.
struct PartLists {
  fs::path train;
  fs::path val;
};

bool is_list(const fs::path& file) { return !file.empty() && why_no_list(file).empty(); }

PartLists lists_of(const SourceOptions& options) {
  std::error_code ignored;
  PartLists lists;
  if (fs::is_directory(options.data, ignored)) {
    lists = {first_of(options.data, train_lists), first_of(options.data, val_lists)};
  } else {
    (evaluates_whole(options) ? lists.val : lists.train) = options.data;
  }
  if (!options.val.empty())
    lists.val = fs::is_directory(options.val, ignored) ? first_of(options.val, val_lists) : options.val;
  if (!options.val.empty() && lists.val.empty())
    throw Error(ErrorCode::io, "the validation part " + shown(options.val) + " holds no list, such as val_list.txt");
  return lists;
}

void add_sample(ListLine& line, Listing& listing) {
  if (const std::string_view kind = refused_kind(line.path); !kind.empty())
    return listing.notes.refused[std::string(kind)].add(line.path);
  const FileState state = state_of(listing.folder / line.path);
  if (!state.why_not.empty()) return listing.notes.without_picture.add(line.path + " (" + state.why_not + ')');
  listing.samples.push_back({std::move(line.path), state.bytes, {.label = line.label}});
}

struct List {
  fs::path file;
  std::vector<ListLine> lines;
};

List read_list(const fs::path& file) { return {file, parse_list(read_lines_of(file), file.string())}; }

/// Returns the names "0", "1", … of the classes up to the largest label.
/// @throws Error{corrupt} if that makes more classes without samples than with some: the label is damaged
std::vector<std::string> names_of_numbers(const List& list) {
  std::vector<std::int32_t> labels;
  const ListLine* largest = nullptr;
  for (const ListLine& line : list.lines) {
    labels.push_back(line.label);
    if (largest == nullptr || line.label > largest->label) largest = &line;
  }
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  const std::int64_t classes = largest == nullptr ? 0 : std::int64_t{largest->label} + 1;
  if (const std::int64_t used = std::ssize(labels); classes > 2 * used)
    refuse_line(list.file.string(), largest->line,
                "the label " + std::to_string(largest->label) + " makes " + std::to_string(classes) +
                    " classes, of which only " + std::to_string(used) +
                    " have samples; correct it, or name all classes in label_list.txt");
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

Listing list_samples(List list, const SourceOptions& options, const std::vector<std::string>& names) {
  Listing listing{.folder = folder_of_list(list.file, list.lines, options.data)};
  for (ListLine& line : list.lines) {
    if (line.label >= std::ssize(names))
      refuse_line(list.file.string(), line.line,
                  "the label " + std::to_string(line.label) + " is none of the " + std::to_string(names.size()) +
                      " classes; the last one is " + std::to_string(names.size() - 1) + " (" + echo(names.back(), 40) +
                      ")");
    add_sample(line, listing);
  }
  return listing;
}

std::vector<std::string> list_class_names(const SourceOptions& options, const List& named_by) {
  for (const fs::path& folder : {named_by.file.parent_path(), options.data})
    if (const fs::path file = first_of(folder, list_label_files); !file.empty())
      return parse_class_names(read_lines_of(file), file.string());
  return names_of_numbers(named_by);
}

}  // namespace

std::string why_not_list(const fs::path& data) {
  std::error_code ignored;
  if (!fs::is_directory(data, ignored)) {
    const std::string why = why_no_list(data);
    return why.empty() ? "" : "it " + why;
  }
  const fs::path train = first_of(data, train_lists);
  const fs::path val = first_of(data, val_lists);
  if (is_list(train) || is_list(val)) return "";
  if (train.empty() && val.empty()) return "it has no file train_list.txt, val_list.txt or test_list.txt";
  const fs::path& found = train.empty() ? val : train;
  return "its file " + found.filename().string() + ' ' + why_no_list(found);
}

Parts open_list(const SourceOptions& options) {
  const PartLists files = lists_of(options);
  std::optional<List> train;
  std::optional<List> val;
  if (!files.train.empty()) train = read_list(files.train);
  if (!files.val.empty()) val = read_list(files.val);
  std::vector<std::string> names = list_class_names(options, train ? *train : *val);
  std::optional<Listing> train_listing;
  std::optional<Listing> val_listing;
  if (train) train_listing = list_samples(std::move(*train), options, names);
  if (val) val_listing = list_samples(std::move(*val), options, names);
  return make_parts("list", std::move(names), std::move(train_listing), std::move(val_listing), options);
}

}  // namespace lockstep::vision
