// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/segmentation.hpp"

#include <cstddef>
#include <cstdint>

#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

using vision::Size;

class PixelLabels : public vision::Collate {
 public:
  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& input, std::int64_t /*classes*/) const override {
    return {{"labels", {1, input.height, input.width}, Content::integer}};
  }

  void write(const vision::Annotation& annotation, const Size& input, std::span<const Buffer> targets) const override {
    const std::int64_t pixels = std::int64_t{input.height} * input.width;
    const std::vector<std::uint8_t>& mask = annotation.mask.pixels;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::uint8_t pixel = mask.empty() ? vision::left_out_pixel : mask[static_cast<std::size_t>(i)];
      vision::put(targets[0], i, pixel == vision::left_out_pixel ? vision::left_out_label : std::int32_t{pixel});
    }
  }
};

class PixelLabelsAndFrame final : public PixelLabels {
 public:
  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& input, std::int64_t classes) const override {
    std::vector<TensorSpec> all = PixelLabels::tensors(input, classes);
    all.push_back(frame_tensor());
    return all;
  }
  void write(const vision::Annotation& annotation, const Size& input, std::span<const Buffer> targets) const override {
    PixelLabels::write(annotation, input, targets);
    write_frame(annotation.frame, targets[1]);
  }
};

}  // namespace

std::shared_ptr<const vision::Collate> pixel_labels_and_frame() { return std::make_shared<PixelLabelsAndFrame>(); }

std::shared_ptr<const vision::Collate> pixel_labels() { return std::make_shared<PixelLabels>(); }

}  // namespace lockstep::workloads
