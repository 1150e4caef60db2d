// SPDX-License-Identifier: Apache-2.0
// From lists of files to the parts of the data.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/hash.hpp"
#include "base/split_mix.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

/// Where a sample stands in the drawn order of its class: the first ones of it become the validation part.
std::uint64_t split_place(const FileSample& sample, std::uint64_t seed) {
  Fnv1a hash;
  hash.add(sample.path);
  return split_mix::mix(split_mix::mix(seed) + hash.value());
}

/// How many of a class become validation samples: the rounded share, but neither none nor all where there are two.
std::size_t share_of(std::size_t samples, double fraction) {
  if (samples < 2) return 0;
  const auto rounded = static_cast<std::size_t>(std::llround(static_cast<double>(samples) * fraction));
  return std::clamp<std::size_t>(rounded, 1, samples - 1);
}

/// Moves a fraction of the samples of each class out of a listing. Both keep the order of the listing.
Listing split_off(Listing& listing, double fraction, std::uint64_t seed) {
  std::map<std::int32_t, std::vector<std::pair<std::uint64_t, std::size_t>>> classes;
  for (std::size_t i = 0; i < listing.samples.size(); ++i)
    classes[listing.samples[i].annotation.label].emplace_back(split_place(listing.samples[i], seed), i);
  std::vector<bool> is_taken(listing.samples.size());
  for (auto& [label, drawn] : classes) {
    std::sort(drawn.begin(), drawn.end());
    for (std::size_t i = 0; i < share_of(drawn.size(), fraction); ++i) is_taken[drawn[i].second] = true;
  }
  Listing taken{.folder = listing.folder};
  std::vector<FileSample> kept;
  for (std::size_t i = 0; i < listing.samples.size(); ++i)
    (is_taken[i] ? taken.samples : kept).push_back(std::move(listing.samples[i]));
  listing.samples = std::move(kept);
  return taken;
}

/// Notes samples whose path an earlier one has.
void find_duplicates(Listing& listing) {
  std::unordered_set<std::string> seen;
  for (const FileSample& sample : listing.samples)
    if (!seen.insert(normal(sample.path)).second) listing.notes.duplicates.add(sample.path);
}

void divide(std::optional<Listing>& train, std::optional<Listing>& val, const SourceOptions& options) {
  if (options.val_split == 0) return;
  const std::string data = shown(options.data);
  if (val)
    throw Error(ErrorCode::invalid_argument,
                "a fraction of the training samples cannot become the validation part of " + data +
                    ", which has one: " + shown(val->folder) + "; leave the fraction out");
  if (!train || !(options.val_split > 0 && options.val_split < 1))
    throw Error(ErrorCode::invalid_argument, "a fraction of " + std::to_string(options.val_split) +
                                                 " of the training samples of " + data +
                                                 " cannot become the validation part; it must be less than 1");
  val = split_off(*train, options.val_split, options.seed);
}

/// Crowds are for evaluations only: a network cannot be trained to find them.
void leave_out_crowds(Listing& listing) {
  for (FileSample& sample : listing.samples)
    std::erase_if(sample.annotation.boxes, [&](const Box& box) {
      if (box.is_crowd) listing.notes.training_crowds.add(sample.path);
      return box.is_crowd;
    });
}

void require_samples(const char* part, const Listing& listing) {
  if (!listing.samples.empty()) return;
  std::string why;
  for (const auto& [kind, finding] : listing.notes.refused)
    why += "; " + std::to_string(finding.count) + " of kind " + kind + " are not read: convert them to JPEG or PNG";
  if (const Finding& missing = listing.notes.without_picture; missing.count > 0)
    why += "; " + std::to_string(missing.count) + " are listed but missing: " + shown(missing.first);
  if (const Finding& missing = listing.notes.without_annotation; missing.count > 0)
    why += "; " + std::to_string(missing.count) + " have no annotation: " + shown(missing.first);
  if (const Finding& empty = listing.notes.empty_texts; empty.count > 0)
    why += "; " + std::to_string(empty.count) + " have no character of the dictionary: " + shown(empty.first);
  if (const Finding& longer = listing.notes.long_texts; longer.count > 0)
    why += "; " + std::to_string(longer.count) + " have a text that is too long: " + shown(longer.first);
  throw Error(ErrorCode::invalid_argument, "the " + std::string(part) + " part in " + shown(listing.folder) +
                                               " has no picture that can be read" + why);
}

}  // namespace

Part memory_part(data::Images images, const std::vector<std::string>& class_names, std::vector<PixelFile> files) {
  if (images.size() == 0) return {};
  return {std::make_shared<MemorySource>(std::move(images), class_names, std::vector<Annotation>(), std::move(files)),
          {}};
}

void require_own_parts(const SourceOptions& options, std::string_view format) {
  if (!options.val.empty() || options.val_split > 0)
    throw Error(ErrorCode::invalid_argument, "the format " + std::string(format) + " of " + shown(options.data) +
                                                 " has a validation part of its own; name no other one");
}

Parts make_parts(std::string_view format, std::vector<std::string> class_names, std::optional<Listing> train,
                 std::optional<Listing> val, const SourceOptions& options,
                 const std::vector<std::int64_t>& category_ids, const MaskClasses& mask_classes) {
  divide(train, val, options);
  if (class_names.empty())
    throw Error(ErrorCode::invalid_argument, shown(options.data) + " has no classes; its annotations name none");
  if (train) leave_out_crowds(*train);
  const auto part_of = [&](const char* name, std::optional<Listing>& listing) {
    if (!listing) return Part{};
    require_samples(name, *listing);
    find_duplicates(*listing);
    return Part{std::make_shared<FileSource>(std::string(format), std::move(listing->folder), class_names,
                                             std::move(listing->samples), category_ids, mask_classes),
                std::move(listing->notes)};
  };
  return {part_of("training", train), part_of("validation", val)};
}

}  // namespace lockstep::vision
