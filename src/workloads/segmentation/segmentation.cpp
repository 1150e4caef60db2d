// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/segmentation.hpp"

#include <cstddef>
#include <cstdint>

namespace lockstep::workloads {
namespace {

using vision::Size;

class Planes final : public vision::Collate {
 public:
  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& input, std::int64_t classes) const override {
    return {{"labels", {1, input.height, input.width}, Content::integer},
            {"masks", {classes, input.height, input.width}, Content::real}};
  }

  void write(const vision::Annotation& annotation, const Size& input, std::span<const Buffer> targets) const override {
    const std::int64_t pixels = std::int64_t{input.height} * input.width;
    const std::int64_t classes = targets[1].count.value / pixels;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::int32_t label =
          annotation.mask.empty() ? vision::left_out_label : annotation.mask[static_cast<std::size_t>(i)];
      vision::put(targets[0], i, label);
      for (std::int64_t c = 0; c < classes; ++c) vision::put(targets[1], c * pixels + i, c == label ? 1 : 0);
    }
  }
};

}  // namespace

std::shared_ptr<const vision::Collate> planes() { return std::make_shared<Planes>(); }

}  // namespace lockstep::workloads
