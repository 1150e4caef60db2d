// SPDX-License-Identifier: Apache-2.0
// Options of the user's own pictures.
#include <array>
#include <charconv>
#include <system_error>

#include "apps/train/options/rows.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/sources.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::train {
namespace {

using namespace cli;

constexpr const char* recognized = "auto";
constexpr const char* by_pictures = "auto";
constexpr const char* one_scale = "off";
constexpr const char* whole_pictures = "off";
/// In the order of `vision::OnBadSample` and `vision::CacheKind`.
constexpr std::array<std::string_view, 2> bad_sample_words = {"stop", "skip"};
constexpr std::array<std::string_view, 3> cache_words = {"none", "ram", "disk"};

constexpr int largest_side = 8192;

/// Reads "224" or "HEIGHTxWIDTH", as transforms have it; 0×0 if that is not what it says, or for "auto".
vision::Size size_of(const std::string& text) {
  const auto side = [](std::string_view digits) {
    int pixels = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), pixels);
    const bool is_valid = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
    return is_valid && pixels >= 1 && pixels <= largest_side ? pixels : 0;
  };
  const std::size_t by = text.find('x');
  const vision::Size size{.width = side(text.substr(by == std::string::npos ? 0 : by + 1)),
                          .height = side(text.substr(0, by))};
  return size.width > 0 && size.height > 0 ? size : vision::Size{};
}

/// Reads "LOW,HIGH"; 0 and 0 if that is not what it says, or for "off".
Scales scales_of(const std::string& text) {
  constexpr double largest = 10;
  Scales scales;
  const char* const end = text.data() + text.size();
  const auto low = std::from_chars(text.data(), end, scales.least);
  if (low.ec != std::errc() || low.ptr == end || *low.ptr != ',') return {};
  const auto high = std::from_chars(low.ptr + 1, end, scales.most);
  const bool is_valid = high.ec == std::errc() && high.ptr == end && scales.least > 0 && scales.least < scales.most &&
                        scales.most <= largest;
  return is_valid ? scales : Scales{};
}

std::string format_of_word(const std::string& word) { return word == recognized ? "" : word; }

std::vector<std::string_view> format_words() {
  std::vector<std::string_view> words = vision::format_names();
  words.insert(words.begin(), recognized);
  return words;
}

std::vector<Rule> picture_rules(const Options& o, const OptionValues& given) {
  const UserData& data = o.user_data;
  const bool has_data = !data.path.empty();
  std::vector<Rule> rules;
  for (const char* option : {"data-format", "val", "val-split", "img", "multi-scale", "eval-tiles", "dict",
                             "dict-space", "max-text", "on-bad-sample", "cache", "cache-mb", "show-batch"})
    rules.push_back({option, !has_data && given.has(option),
                     std::string("--") + option + " is about the user's own pictures: name them by --data PATH"});
  rules.push_back({"eval-tiles", !o.predict.empty() && given.has("eval-tiles"),
                   "--eval-tiles beside --predict: predictions are made of whole pictures; --eval-scale 0.5 makes them "
                   "smaller"});
  rules.push_back({"eval-scale", !has_data && o.predict.empty() && given.has("eval-scale"),
                   "--eval-scale is about the user's own pictures: name them by --data PATH, or --predict PATH"});
  const auto size = given.get<std::string>("img");
  rules.push_back({"img", size != by_pictures && data.size.width == 0,
                   "--img " + size +
                       ": give the side of the network's square input in pixels, such as 224, or "
                       "HEIGHTxWIDTH, such as 240x320, up to " +
                       std::to_string(largest_side)});
  const auto scales = given.get<std::string>("multi-scale");
  rules.push_back({"multi-scale", scales != one_scale && data.scales.most == 0,
                   "--multi-scale " + scales +
                       ": give the smallest and the largest size of a step as parts of --img, such as 0.5,1.5"});
  rules.push_back({"val", !data.val.empty() && data.val_split > 0,
                   "--val beside --val-split: name the validation part, or divide the training part"});
  for (const char* option : {"dataset", "data-dir"})
    rules.push_back(
        {option, has_data && given.has(option),
         std::string("--") + option + " beside --data: name the user's own pictures, or a data set of the program"});
  if (has_data && !data.augment.empty()) {
    try {
      (void)vision::parse_transforms(data.augment, {1, 1});
    } catch (const Error& error) {
      rules.push_back({"augment", true, "--augment " + data.augment + ": " + error.message()});
    }
  }
  return rules;
}

}  // namespace

OptionGroup picture_options(Options& o) {
  UserData& data = o.user_data;
  return {
      "Pictures of your own",
      {row("data", Text{"PATH"}, no_default,
           "folder or list of pictures to train on, instead of --dataset; docs/data.md shows the formats",
           into(data.path), Scope::each_rank),
       row("data-format", one_of(format_words()), recognized, "format of --data", into(data.format, format_of_word)),
       row("val", Text{"PATH"}, described("as the layout of --data says"), "folder or list of the validation part",
           into(data.val), Scope::each_rank),
       row("val-split", Real{0, 1, "off", false, true}, "off",
           "take this fraction of the training samples, class by class, for the validation part", into(data.val_split)),
       row("img", Text{"SIZE"}, by_pictures,
           "size of the network's input, SIDE or HEIGHTxWIDTH; auto is the pictures' own size if all are equal and at "
           "most 64, and otherwise 224; for detection 640, or a multiple of 32; for text 32x100, or 64x256 in gray",
           into(data.size, size_of)),
       row("multi-scale", Text{"LOW,HIGH", "0.5,1.5"}, one_scale,
           "train each step with pictures of another size, from LOW to HIGH times --img: a multiple of 32 pixels, or "
           "of 8 if --img is below 64, and of lines of text only the width; evaluations have --img",
           into(data.scales, scales_of)),
       row("eval-scale", Real{0, 8, by_pictures, true}, by_pictures,
           "segmentation evaluates and predicts pictures resized by this factor, as a whole; auto is that of the "
           "checkpoint, or 1",
           into(data.eval_scale)),
       row("eval-tiles", Whole{64, 8192, whole_pictures}, whole_pictures,
           "segmentation evaluates pictures that are too large for the memory in square tiles of so many pixels a "
           "side, which overlap by at least a quarter",
           into(data.eval_tiles)),
       row(
           "dict", Text{"FILE"}, described("0-9 and a-z, with lower-cased texts"),
           "the characters that texts are made of, one on each line of a file; others are left out and counted",
           [&data](const OptionValue& file) { data.texts.dictionary = std::get<std::string>(file); }, Scope::each_rank),
       row("dict-space", Switch{}, "no", "a space is a character of texts as well", into(data.texts.has_space)),
       row("max-text", Whole{1, 10'000}, "25", "leave out samples whose text has more characters",
           into(data.texts.longest)),
       row("on-bad-sample", one_of(bad_sample_words), "stop",
           "what to do about a picture that cannot be decoded: stop, or skip it, which trains on the next good one in "
           "its place, leaves it out of evaluations, and lists it in bad_samples.txt",
           into(data.on_bad_sample, value_named<vision::OnBadSample, bad_sample_words>)),
       row("cache", one_of(cache_words), "ram",
           "where the ranks of a node keep decoded pictures, once for all: ram, disk (in the folder of --data), or "
           "none",
           into(data.cache, value_named<vision::CacheKind, cache_words>)),
       row("cache-mb", Whole{1, std::int64_t{1} << 40}, described("a quarter of what is free"),
           "most megabytes of decoded pictures on each node",
           [&data](const OptionValue& megabytes) { data.most_cached = {std::get<std::int64_t>(megabytes) << 20}; }),
       row("show-batch", Text{"FILE.png"}, no_default,
           "write a sheet of the first batch as the network sees it, with its annotations, and end",
           into(data.show_batch))},
      [&o](const OptionValues& given) { return picture_rules(o, given); }};
}

}  // namespace lockstep::train
