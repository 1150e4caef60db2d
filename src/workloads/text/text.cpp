// SPDX-License-Identifier: Apache-2.0
#include "workloads/text/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "vision/source/characters.hpp"

namespace lockstep::workloads {
namespace {

using vision::Size;

class Sequences final : public vision::Collate {
 public:
  explicit Sequences(Characters characters) : characters_(std::move(characters)) {}

  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& /*input*/, std::int64_t /*classes*/) const override {
    return {{"targets", {1, 1, characters_.longest}, Content::integer},
            {"target_lengths", {1, 1, 1}, Content::integer},
            {"steps", {1, 1, 1}, Content::integer}};
  }

  void write(const vision::Annotation& annotation, const Size& input, std::span<const Buffer> targets) const override {
    const std::string& text = annotation.text;
    for (std::size_t i = 0; i < static_cast<std::size_t>(characters_.longest); ++i) {
      const std::size_t label = i < text.size() ? characters_.alphabet.find(text[i]) : 0;
      vision::put(targets[0], static_cast<std::int64_t>(i), static_cast<double>(label));
    }
    vision::put(targets[1], 0, static_cast<double>(text.size()));
    const int end = annotation.boxes.empty() ? input.width : static_cast<int>(annotation.boxes.front().right);
    const int each = characters_.pixels_per_step;
    vision::put(targets[2], 0, std::min(end / each + 1, input.width / each));
  }

 private:
  Characters characters_;
};

class CharacterTargets final : public vision::Collate {
 public:
  CharacterTargets(const std::vector<std::string>& class_names, std::int64_t longest)
      : labels_(class_names), longest_(longest) {}

  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& /*input*/, std::int64_t /*classes*/) const override {
    return {{"targets", {1, 1, longest_}, Content::integer}, {"target_lengths", {1, 1, 1}, Content::integer}};
  }

  void write(const vision::Annotation& annotation, const Size& /*input*/,
             std::span<const Buffer> targets) const override {
    std::string_view text = annotation.text;
    std::int64_t length = 0;
    for (std::string_view character = vision::next_character(text); !character.empty() && length < longest_;
         character = vision::next_character(text))
      if (const std::int32_t label = labels_.label(character); label >= 0) vision::put(targets[0], length++, 1 + label);
    for (std::int64_t i = length; i < longest_; ++i) vision::put(targets[0], i, 0);
    vision::put(targets[1], 0, static_cast<double>(length));
  }

 private:
  vision::CharacterLabels labels_;
  std::int64_t longest_;
};

}  // namespace

std::shared_ptr<const vision::Collate> character_targets(const std::vector<std::string>& class_names,
                                                         std::int64_t longest) {
  return std::make_shared<CharacterTargets>(class_names, longest);
}

std::shared_ptr<const vision::Collate> sequences(const Characters& characters) {
  return std::make_shared<Sequences>(characters);
}

}  // namespace lockstep::workloads
