// SPDX-License-Identifier: Apache-2.0
#include "nn/description/description.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <sstream>
#include <string_view>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

/// In the order of `Stem`, of which a description has a model's own.
constexpr std::array<std::string_view, 3> stems = {"", "cifar", "imagenet"};
constexpr const char* integers = "integer";

template <typename Number>
std::string text_of_number(Number number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

template <typename Number>
std::string joined(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) text += (text.empty() ? "" : " ") + text_of_number(number);
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string text_of_tensor(const TensorSpec& tensor) {
  return tensor.name + ' ' + joined(std::vector<std::int64_t>(tensor.extent.begin(), tensor.extent.end())) +
         (tensor.content == Content::integer ? std::string(" ") + integers : "");
}

/// Reads the texts of a file that anybody may have written.
class DescriptionReader {
 public:
  DescriptionReader(const Metadata& metadata, const std::string& file) : metadata_(metadata), file_(file) {}

  [[nodiscard]] bool has(const std::string& name) const { return metadata_.contains("lockstep." + name); }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto found = metadata_.find("lockstep." + name);
    if (found == metadata_.end()) refuse(name, "is missing");
    return found->second;
  }
  template <typename Number>
  [[nodiscard]] Number number(const std::string& name, const std::string& text) const {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) refuse(name, "has '" + echo(text) + "' for a number");
    return number;
  }
  template <typename Number>
  [[nodiscard]] std::vector<Number> numbers(const std::string& name) const {
    std::vector<Number> all;
    for (const std::string& word : split(text(name), ' ')) all.push_back(number<Number>(name, word));
    return all;
  }
  /// Refuses a text that has not one entry for each class.
  void require_each_class(const std::string& name, std::ptrdiff_t entries, std::int64_t classes) const {
    if (entries != classes)
      refuse(name, "has " + std::to_string(entries) + " entries for " + std::to_string(classes) + " classes");
  }
  [[nodiscard]] TensorSpec tensor(const std::string& line) const {
    const std::vector<std::string> words = split(line, ' ');
    const bool is_integer = words.size() == 5 && words[4] == integers;
    if (words.size() != 4 && !is_integer) refuse("tensors", "has the line '" + echo(line) + "'");
    TensorSpec tensor{.name = words[0], .content = is_integer ? Content::integer : Content::real};
    for (std::size_t i = 0; i < 3; ++i) {
      tensor.extent[i] = number<std::int64_t>("tensors", words[i + 1]);
      if (tensor.extent[i] < 1 || tensor.extent[i] > std::numeric_limits<std::int32_t>::max())
        refuse("tensors", "has the extent " + words[i + 1]);
    }
    return tensor;
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    throw Error(ErrorCode::corrupt, "in '" + echo(file_, 400) + "', the metadata \"lockstep." + name + "\" " + what +
                                        "; take a file that train has written");
  }

 private:
  const Metadata& metadata_;
  const std::string& file_;
};

Normalization normalization_of(const DescriptionReader& reader) {
  Normalization images{.mean = reader.numbers<double>("mean"), .deviation = reader.numbers<double>("deviation")};
  if (images.mean.size() != images.deviation.size()) reader.refuse("deviation", "has another length than the mean");
  if (!std::ranges::all_of(images.mean, [](double mean) { return std::isfinite(mean); }))
    reader.refuse("mean", "has a number that is not finite");
  if (!std::ranges::all_of(images.deviation,
                           [](double deviation) { return deviation > 0 && std::isfinite(deviation); }))
    reader.refuse("deviation", "has a number that is not positive and finite");
  return images;
}

std::vector<double> anchors_of(const DescriptionReader& reader) {
  std::vector<double> anchors = reader.numbers<double>("anchors");
  if (anchors.size() % 2 != 0) reader.refuse("anchors", "has a width without a height");
  if (!std::ranges::all_of(anchors, [](double side) { return side > 0 && std::isfinite(side); }))
    reader.refuse("anchors", "has a number that is not positive and finite");
  return anchors;
}

}  // namespace

Metadata to_metadata(const ModelDescription& description) {
  Metadata texts{{"lockstep.model", description.model}, {"lockstep.classes", text_of_number(description.data.classes)}};
  if (description.data.stem != Stem::by_extent)
    texts["lockstep.stem"] = stems[static_cast<std::size_t>(description.data.stem)];
  std::string& tensors = texts["lockstep.tensors"];
  for (const TensorSpec& tensor : description.data.tensors)
    tensors += (tensors.empty() ? "" : "\n") + text_of_tensor(tensor);
  for (const std::string& name : description.class_names)
    texts["lockstep.class_names"] += echo(name, name.size()) + '\n';
  for (const std::int64_t id : description.category_ids) {
    std::string& ids = texts["lockstep.category_ids"];
    ids += (ids.empty() ? "" : " ") + std::to_string(id);
  }
  if (!description.data.anchors.empty()) texts["lockstep.anchors"] = joined(description.data.anchors);
  if (!description.transforms.empty()) texts["lockstep.transforms"] = echo(description.transforms, 1000);
  if (description.images) {
    texts["lockstep.mean"] = joined(description.images->mean);
    texts["lockstep.deviation"] = joined(description.images->deviation);
  }
  return texts;
}

std::optional<ModelDescription> description_of(const Metadata& metadata, const std::string& file) {
  const DescriptionReader reader(metadata, file);
  if (!reader.has("model")) return std::nullopt;
  ModelDescription description{.model = reader.text("model"), .data = {}, .class_names = {}};
  DataSpec& data = description.data;
  data.classes = reader.number<std::int64_t>("classes", reader.text("classes"));
  if (data.classes < 0 || data.classes > std::numeric_limits<std::int32_t>::max())
    reader.refuse("classes", "is " + std::to_string(data.classes));
  if (reader.has("stem")) {
    const auto found = std::ranges::find(stems, reader.text("stem"));
    if (found == stems.end()) reader.refuse("stem", "is '" + echo(reader.text("stem")) + "'");
    data.stem = static_cast<Stem>(found - stems.begin());
  }
  for (const std::string& line : split(reader.text("tensors"), '\n')) data.tensors.push_back(reader.tensor(line));
  if (reader.has("class_names")) description.class_names = split(reader.text("class_names"), '\n');
  if (!description.class_names.empty())
    reader.require_each_class("class_names", std::ssize(description.class_names), data.classes);
  if (reader.has("category_ids")) {
    description.category_ids = reader.numbers<std::int64_t>("category_ids");
    reader.require_each_class("category_ids", std::ssize(description.category_ids), data.classes);
  }
  if (reader.has("anchors")) data.anchors = anchors_of(reader);
  if (reader.has("transforms")) description.transforms = reader.text("transforms");
  if (reader.has("mean")) description.images = normalization_of(reader);
  return description;
}

}  // namespace lockstep::nn
