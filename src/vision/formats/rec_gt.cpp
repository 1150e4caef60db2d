// SPDX-License-Identifier: Apache-2.0
// Lists of pictures of lines with their texts, as PaddleOCR's SimpleDataSet has them.
#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/dictionary.hpp"
#include "vision/formats/line_texts.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 5> text_train_lists = {"rec_gt_train.txt", "rec_gt.txt", "train/rec_gt.txt",
                                                         "train_list.txt", "train.txt"};
constexpr std::array<const char*, 9> text_val_lists = {"rec_gt_val.txt", "rec_gt_test.txt", "rec_gt_eval.txt",
                                                       "val/rec_gt.txt", "test/rec_gt.txt", "val_list.txt",
                                                       "val.txt",        "test_list.txt",   "test.txt"};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char one) { return one >= '0' && one <= '9'; });
}

/// Returns why a file is no list of texts; empty if its first line is that of one. A line of a list of classes or of
/// masks can look the same, so that of a file of another name than rec_gt… is taken for it.
std::string why_no_texts(const fs::path& file) {
  if (const FileState state = state_of(file); !state.why_not.empty()) return state.why_not;
  try {
    const std::string text = read_lines_of(file);
    TextLines lines(text, file.string(), TextLines::Blanks::kept);
    TextLine line;
    if (!lines.next(line)) return "has no lines";
    const std::vector<LineText> texts = parse_line_texts(line.text, file.string());
    const bool is_named = file.filename().string().starts_with("rec_gt");
    if (!is_named && (is_number(texts.front().text) || has_picture_suffix(texts.front().text)))
      return "has a first line that could be of classes or masks; name the file rec_gt….txt";
  } catch (const Error&) {
    return "has a first line that is no path, tab and text";
  }
  return "";
}

bool is_text_list(const fs::path& file) { return !file.empty() && why_no_texts(file).empty(); }

struct TextLists {
  fs::path train;
  fs::path val;
};

TextLists text_lists_of(const SourceOptions& options) {
  TextLists lists;
  if (is_folder(options.data)) {
    lists = {first_of(options.data, text_train_lists), first_of(options.data, text_val_lists)};
  } else {
    (evaluates_whole(options) ? lists.val : lists.train) = options.data;
  }
  if (options.val.empty()) return lists;
  lists.val = options.val;
  if (!is_folder(options.val)) return lists;
  for (const fs::path& list : {first_of(options.val, text_val_lists), first_of(options.val, text_train_lists)})
    if (is_text_list(list)) return {lists.train, list};
  throw Error(ErrorCode::io, "the validation part " + shown(options.val) + " holds no list, such as rec_gt_val.txt");
}

Listing listing_of_texts(const fs::path& list, const SourceOptions& options, const Dictionary& dictionary) {
  std::vector<LineText> lines = parse_line_texts(read_lines_of(list), list.string());
  Listing listing{.folder = folder_of_list(list, lines, options.data)};
  for (LineText& line : lines) {
    if (const std::string_view kind = refused_kind(line.path); !kind.empty()) {
      listing.notes.refused[std::string(kind)].add(line.path);
      continue;
    }
    const FileState state = state_of(listing.folder / line.path);
    if (!state.why_not.empty()) {
      listing.notes.without_picture.add(line.path + " (" + state.why_not + ')');
      continue;
    }
    const std::string place = list.filename().string() + ':' + std::to_string(line.line);
    std::string text = dictionary.readable(line.text, place, listing.notes);
    if (text.empty()) continue;
    FileSample sample{.path = std::move(line.path), .bytes = state.bytes};
    sample.annotation.text = std::move(text);
    listing.samples.push_back(std::move(sample));
  }
  return listing;
}

}  // namespace

std::string why_not_rec_gt(const fs::path& data) {
  if (!is_folder(data)) {
    const std::string why = why_no_texts(data);
    return why.empty() ? "" : "it " + why;
  }
  const fs::path train = first_of(data, text_train_lists);
  const fs::path val = first_of(data, text_val_lists);
  if (is_text_list(train) || is_text_list(val)) return "";
  if (train.empty() && val.empty()) return "it has no file rec_gt_train.txt, rec_gt.txt or rec_gt_val.txt";
  const fs::path& found = train.empty() ? val : train;
  return "its file " + found.filename().string() + ' ' + why_no_texts(found);
}

Parts open_rec_gt(const SourceOptions& options) {
  const TextLists lists = text_lists_of(options);
  const Dictionary dictionary(options);
  std::optional<Listing> train;
  std::optional<Listing> val;
  if (!lists.train.empty()) train = listing_of_texts(lists.train, options, dictionary);
  if (!lists.val.empty()) val = listing_of_texts(lists.val, options, dictionary);
  return make_parts("rec_gt", dictionary.class_names(), std::move(train), std::move(val), options);
}

}  // namespace lockstep::vision
