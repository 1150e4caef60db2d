// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/segmentation.hpp"

#include <cstddef>
#include <cstdint>

#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

using vision::Size;

class Planes : public vision::Collate {
 public:
  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& input, std::int64_t classes) const override {
    return {{"labels", {1, input.height, input.width}, Content::integer},
            {"masks", {classes, input.height, input.width}, Content::real}};
  }

  void write(const vision::Annotation& annotation, const Size& input, std::span<const Buffer> targets) const override {
    const std::int64_t pixels = std::int64_t{input.height} * input.width;
    const std::int64_t classes = targets[1].count.value / pixels;
    const std::vector<std::uint8_t>& mask = annotation.mask.pixels;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::uint8_t pixel = mask.empty() ? vision::left_out_pixel : mask[static_cast<std::size_t>(i)];
      const std::int32_t label = pixel == vision::left_out_pixel ? vision::left_out_label : pixel;
      vision::put(targets[0], i, label);
      for (std::int64_t c = 0; c < classes; ++c) vision::put(targets[1], c * pixels + i, c == label ? 1 : 0);
    }
  }
};

class PlanesAndFrame final : public Planes {
 public:
  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& input, std::int64_t classes) const override {
    std::vector<TensorSpec> all = Planes::tensors(input, classes);
    all.push_back(frame_tensor());
    return all;
  }
  void write(const vision::Annotation& annotation, const Size& input, std::span<const Buffer> targets) const override {
    Planes::write(annotation, input, targets);
    write_frame(annotation.frame, targets[2]);
  }
};

}  // namespace

std::shared_ptr<const vision::Collate> planes_and_frame() { return std::make_shared<PlanesAndFrame>(); }

std::shared_ptr<const vision::Collate> planes() { return std::make_shared<Planes>(); }

}  // namespace lockstep::workloads
