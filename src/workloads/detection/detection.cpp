// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/detection.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace lockstep::workloads {
namespace {

using vision::Box;
using vision::Size;

constexpr std::array<int, 3> strides{4, 8, 16};

/// Returns the number of cells of all scales.
std::int64_t cell_count(const Size& input) {
  std::int64_t count = 0;
  for (const int stride : strides) count += std::int64_t{input.height / stride} * (input.width / stride);
  return count;
}

/// The cell that a box belongs to, and its edges relative to the center of that cell, in strides.
struct Assignment {
  std::int64_t cell = 0;
  std::array<double, 4> edges{};
};

Assignment assign(const Box& box, const Size& input) {
  std::int64_t first = 0;  // first cell of the scale
  for (const int stride : strides) {
    const int columns = input.width / stride;
    const int rows = input.height / stride;
    const float longer = std::max(box.right - box.left, box.bottom - box.top);
    if (longer < static_cast<float>(3 * stride) || stride == strides.back()) {
      const auto cell_of = [stride](float low, float high, int cells) {
        return std::clamp(static_cast<int>((low + high) / static_cast<float>(2 * stride)), 0, cells - 1);
      };
      const int x = cell_of(box.left, box.right, columns);
      const int y = cell_of(box.top, box.bottom, rows);
      const auto in_strides = [stride](float edge, int cell) {
        return static_cast<double>(edge) / stride - cell - 0.5;
      };
      return {first + std::int64_t{y} * columns + x,
              {in_strides(box.left, x), in_strides(box.top, y), in_strides(box.right, x), in_strides(box.bottom, y)}};
    }
    first += std::int64_t{rows} * columns;
  }
  return {};
}

class Cells final : public vision::Collate {
 public:
  [[nodiscard]] std::vector<TensorSpec> tensors(const Size& input, std::int64_t /*classes*/) const override {
    const std::int64_t cells = cell_count(input);
    return {{"labels", {1, 1, cells}, Content::integer},
            {"objects", {1, 1, cells}, Content::real},
            {"boxes", {4, 1, cells}, Content::real}};
  }

  void write(const vision::Annotation& annotation, const Size& input, std::span<const Buffer> targets) const override {
    const std::int64_t cells = cell_count(input);
    for (std::int64_t i = 0; i < cells; ++i) {
      vision::put(targets[0], i, vision::left_out_label);
      vision::put(targets[1], i, 0);
    }
    for (std::int64_t i = 0; i < 4 * cells; ++i) vision::put(targets[2], i, 0);
    for (const Box& box : annotation.boxes) {
      const Assignment to = assign(box, input);
      vision::put(targets[0], to.cell, box.label);
      vision::put(targets[1], to.cell, 1);
      for (std::size_t edge = 0; edge < to.edges.size(); ++edge)
        vision::put(targets[2], static_cast<std::int64_t>(edge) * cells + to.cell, to.edges[edge]);
    }
  }
};

}  // namespace

std::shared_ptr<const vision::Collate> cells() { return std::make_shared<Cells>(); }

}  // namespace lockstep::workloads
