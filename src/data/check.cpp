// SPDX-License-Identifier: Apache-2.0
#include "data/check.hpp"

#include <algorithm>

#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

[[noreturn]] void refuse_dataset(std::string_view dataset, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "the data set \"" + std::string(dataset) + "\" " + what);
}

std::string extent_text(const TensorSpec& tensor) {
  return std::to_string(tensor.extent[0]) + "×" + std::to_string(tensor.extent[1]) + "×" +
         std::to_string(tensor.extent[2]);
}

/// Lists tensors: "images 1×28×28 real, labels 1×1×1 integer".
std::string list_text(std::span<const TensorSpec> tensors) {
  std::string text;
  for (const TensorSpec& tensor : tensors)
    text += (text.empty() ? "" : ", ") + tensor.name + " " + extent_text(tensor) +
            (tensor.content == Content::real ? " real" : " integer");
  return text;
}

/// Checks that the bytes of a tensor stand for numbers in each of its channels.
void check_bytes(std::string_view dataset, const Dataset& part) {
  for (const TensorSpec& tensor : tensors_with_bytes(part)) {
    if (!tensor.bytes) continue;
    const auto channels = static_cast<std::size_t>(tensor.extent[0]);
    if (tensor.content != Content::real)
      refuse_dataset(dataset, "has integers in its tensor \"" + tensor.name + "\"; only real numbers can be bytes");
    if (tensor.bytes->mean.size() != channels || tensor.bytes->deviation.size() != channels)
      refuse_dataset(dataset, "has " + std::to_string(tensor.bytes->mean.size()) + " means and " +
                                  std::to_string(tensor.bytes->deviation.size()) +
                                  " deviations for the bytes of its tensor \"" + tensor.name + "\" of " +
                                  std::to_string(channels) + " channels; give one of each for a channel");
  }
}

/// Gives tensors of other extents the bytes that the usual ones have.
/// @throws Error{invalid_argument} if they differ in more than height and width
void add_bytes(const Dataset& dataset, const std::vector<TensorSpec>& usual, std::vector<TensorSpec>& tensors) {
  check_tensors(dataset.name(), tensors);
  bool are_alike = tensors.size() == usual.size();
  for (std::size_t i = 0; are_alike && i < tensors.size(); ++i) {
    tensors[i].bytes = usual[i].bytes;
    TensorSpec other = tensors[i];
    other.extent = {other.extent[0], usual[i].extent[1], usual[i].extent[2]};
    are_alike = other == usual[i];
  }
  if (!are_alike)
    refuse_dataset(dataset.name(), "has (" + list_text(tensors) + ") among its extents, beside (" + list_text(usual) +
                                       "); only height and width may differ");
}

/// Checks that each sample is in one group.
void check_groups(const Dataset& dataset, const std::vector<EvaluationGroup>& groups) {
  if (groups.empty()) return;
  std::vector<std::int64_t> samples;
  for (const EvaluationGroup& group : groups) samples.insert(samples.end(), group.samples.begin(), group.samples.end());
  std::ranges::sort(samples);
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    if (i >= std::ssize(samples) || samples[static_cast<std::size_t>(i)] != i)
      refuse_dataset(dataset.name(), "does not have its sample " + std::to_string(i) +
                                         " once in its evaluation groups; put each sample into one of them");
  if (std::ssize(samples) > dataset.size())
    refuse_dataset(dataset.name(), "has a sample " + std::to_string(samples.back()) +
                                       " in its evaluation groups, and only " + std::to_string(dataset.size()) +
                                       " samples");
}

void check_part(std::string_view dataset, const Dataset* part, const std::string& which) {
  if (part == nullptr) refuse_dataset(dataset, "was loaded without its " + which + " part; it needs both");
  if (part->size() < 1)
    refuse_dataset(dataset, "has " + std::to_string(part->size()) + " " + which + " samples; it needs at least one");
  if (part->classes() < 0)
    refuse_dataset(
        dataset, "has " + std::to_string(part->classes()) + " " + which + " classes; say 0 where there are no labels");
  check_tensors(dataset, part->tensors());
  check_bytes(dataset, *part);
  (void)extents_with_bytes(*part);
}

}  // namespace

void check_tensors(std::string_view dataset, std::span<const TensorSpec> tensors) {
  if (tensors.empty()) refuse_dataset(dataset, "has no tensors; it needs at least one");
  for (auto tensor = tensors.begin(); tensor != tensors.end(); ++tensor) {
    if (tensor->name.empty()) refuse_dataset(dataset, "has a tensor of the empty name; give it another");
    const auto same = [&](const TensorSpec& other) { return other.name == tensor->name; };
    if (std::any_of(tensors.begin(), tensor, same))
      refuse_dataset(dataset, "has two tensors \"" + tensor->name + "\"; give each a name of its own");
    if (*std::min_element(tensor->extent.begin(), tensor->extent.end()) < 1)
      refuse_dataset(dataset, "has a tensor \"" + tensor->name + "\" of " + extent_text(*tensor) +
                                  "; each extent must be at least 1");
  }
}

std::vector<TensorSpec> tensors_with_bytes(const Dataset& dataset) {
  std::vector<TensorSpec> tensors = dataset.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (const Normalization* numbers = dataset.bytes_of(i)) tensors[i].bytes = *numbers;
  return tensors;
}

std::vector<std::vector<TensorSpec>> extents_with_bytes(const Dataset& dataset) {
  const std::vector<TensorSpec> usual = tensors_with_bytes(dataset);
  std::vector<std::vector<TensorSpec>> all = dataset.extents();
  if (all.empty() || all.front() != dataset.tensors())
    refuse_dataset(dataset.name(), "does not have its tensors (" + list_text(dataset.tensors()) +
                                       ") as the first of its extents; let extents() begin with tensors()");
  for (std::vector<TensorSpec>& tensors : all) add_bytes(dataset, usual, tensors);
  return all;
}

PairExtents extents_of(const DatasetPair& pair) {
  PairExtents extents{.all = extents_with_bytes(*pair.train)};
  extents.training = extents.all.size();
  extents.evaluation.assign(pair.test->extents().size(), 0);
  const std::vector<EvaluationGroup> groups = pair.test->evaluation_groups();
  check_groups(*pair.test, groups);
  const std::vector<TensorSpec> usual = tensors_with_bytes(*pair.test);
  for (const EvaluationGroup& group : groups) {
    std::vector<TensorSpec> tensors = group.tensors;
    add_bytes(*pair.test, usual, tensors);
    const auto known = std::ranges::find(extents.all, tensors);
    extents.evaluation.push_back(static_cast<std::size_t>(known - extents.all.begin()));
    if (known == extents.all.end()) extents.all.push_back(std::move(tensors));
  }
  return extents;
}

void check_pair(std::string_view dataset, const DatasetPair& pair) {
  check_part(dataset, pair.train.get(), "training");
  check_part(dataset, pair.test.get(), "test");
  if (const std::vector<TensorSpec> train = pair.train->tensors(), test = pair.test->tensors(); train != test)
    refuse_dataset(dataset, "has other tensors in training (" + list_text(train) + ") than in test (" +
                                list_text(test) + "); they must be the same, in the same order");
  if (tensors_with_bytes(*pair.train) != tensors_with_bytes(*pair.test))
    refuse_dataset(dataset,
                   "has bytes that stand for other numbers in training than in test; give both parts the same "
                   "means and deviations");
  if (pair.train->classes() != pair.test->classes())
    refuse_dataset(dataset, "has " + std::to_string(pair.train->classes()) + " classes in training but " +
                                std::to_string(pair.test->classes()) + " in test; they must be the same");
}

}  // namespace lockstep::data
