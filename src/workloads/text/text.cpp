// SPDX-License-Identifier: Apache-2.0
#include "workloads/text/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

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

}  // namespace

std::shared_ptr<const vision::Collate> sequences(const Characters& characters) {
  return std::make_shared<Sequences>(characters);
}

}  // namespace lockstep::workloads
