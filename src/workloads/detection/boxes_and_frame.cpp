// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/boxes_and_frame.hpp"

#include <algorithm>
#include <array>

#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

/// Whether a detector is trained to find a box.
bool is_target(const vision::Box& box) { return !box.is_crowd; }

class BoxesAndFrame final : public vision::Collate {
 public:
  explicit BoxesAndFrame(std::int64_t most) : most_(most) {}

  [[nodiscard]] std::vector<TensorSpec> tensors(const vision::Size& /*input*/,
                                                std::int64_t /*classes*/) const override {
    return {{"boxes", {5, 1, most_}, Content::real}, frame_tensor()};
  }

  void write(const vision::Annotation& annotation, const vision::Size& /*input*/,
             std::span<const Buffer> targets) const override {
    std::int64_t column = 0;
    for (const vision::Box& box : annotation.boxes)
      if (column < most_ && is_target(box))
        write_column(column++,
                     {static_cast<double>(box.label), (double{box.left} + box.right) / 2,
                      (double{box.top} + box.bottom) / 2, double{box.right} - box.left, double{box.bottom} - box.top},
                     targets[0]);
    while (column < most_) write_column(column++, {-1, 0, 0, 0, 0}, targets[0]);
    write_frame(annotation.frame, targets[1]);
  }

 private:
  void write_column(std::int64_t column, const std::array<double, 5>& numbers, const Buffer& target) const {
    for (std::size_t row = 0; row < numbers.size(); ++row)
      vision::put(target, static_cast<std::int64_t>(row) * most_ + column, numbers[row]);
  }

  std::int64_t most_;
};

}  // namespace

std::int64_t most_boxes(std::span<const vision::Source* const> sources) {
  constexpr std::int64_t pictures_of_mosaic = 4;
  std::int64_t most = 0;
  for (const vision::Source* source : sources)
    for (std::int64_t sample = 0; source != nullptr && sample < source->size(); ++sample)
      most = std::max<std::int64_t>(most, std::ranges::count_if(source->annotation(sample).boxes, is_target));
  return std::max<std::int64_t>(pictures_of_mosaic * most, 1);
}

std::shared_ptr<const vision::Collate> boxes_and_frame(std::int64_t most) {
  return std::make_shared<BoxesAndFrame>(most);
}

}  // namespace lockstep::workloads
