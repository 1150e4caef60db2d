// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/mask_reader.hpp"

#include <algorithm>
#include <cmath>

#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

using vision::Image;
using vision::Size;

/// The two positions of the input that a pixel of the stored picture lies between, and the weight of the second.
struct Between {
  int first = 0;
  int second = 0;
  double weight = 0;
};

/// Returns where the pixels of a row or column of the stored picture lie in the input.
/// @param scale, shift  of the frame, in this direction
std::vector<Between> positions(double scale, double shift, int stored, int input) {
  constexpr double rounding = 1e-3;  // of a frame in float32
  const auto [low, high] = std::minmax({shift, shift + scale * stored});
  const int first = std::clamp(static_cast<int>(std::floor(low + rounding)), 0, input - 1);
  const int last = std::clamp(static_cast<int>(std::ceil(high - rounding)) - 1, first, input - 1);
  std::vector<Between> all;
  for (int at = 0; at < stored; ++at) {
    const double position = std::clamp(scale * (at + 0.5) + shift - 0.5, double(first), double(last));
    const int before = static_cast<int>(position);
    all.push_back({before, std::min(before + 1, last), position - before});
  }
  return all;
}

/// @param logits  of a sample: a plane of the input's size for each class
template <typename Real>
Image mask_of(const Real* logits, std::int64_t classes, const Size& input, const vision::Frame& frame) {
  const std::vector<Between> columns = positions(frame.scale_x, frame.left, frame.width, input.width);
  const std::vector<Between> rows = positions(frame.scale_y, frame.top, frame.height, input.height);
  Image mask;
  mask.resize(frame.width, frame.height, 1);
  std::vector<Real> line(static_cast<std::size_t>(input.width));
  std::vector<Real> largest(columns.size());
  for (int y = 0; y < frame.height; ++y) {
    const auto row = mask.row(y);
    const Between& between = rows[static_cast<std::size_t>(y)];
    for (std::int64_t c = 0; c < classes; ++c) {
      const Real* plane = logits + c * input.width * input.height;
      const Real* above = plane + std::int64_t{between.first} * input.width;
      const Real* below = plane + std::int64_t{between.second} * input.width;
      const auto weight = static_cast<Real>(between.weight);
      for (std::size_t x = 0; x < line.size(); ++x) line[x] = above[x] * (1 - weight) + below[x] * weight;
      for (std::size_t x = 0; x < columns.size(); ++x) {
        const auto& [left, right, part] = columns[x];
        const Real value = line[static_cast<std::size_t>(left)] * (1 - static_cast<Real>(part)) +
                           line[static_cast<std::size_t>(right)] * static_cast<Real>(part);
        if (c > 0 && !(value > largest[x])) continue;
        largest[x] = value;
        row[x] = static_cast<std::uint8_t>(c);
      }
    }
  }
  return mask;
}

}  // namespace

std::optional<MaskReader> MaskReader::of(const FoundModel& model) {
  const auto& images = model.tensors.front().extent;
  const auto logits = std::ranges::find_if(model.graph.outputs(), [&](const nn::Output& one) {
    const ops::Shape shape = model.graph.shape(one.value);
    return shape.channels == model.classes && shape.height == images[1] && shape.width == images[2];
  });
  const auto frame = std::ranges::find(model.tensors, "frame", &TensorSpec::name);
  if (logits == model.graph.outputs().end() || frame == model.tensors.end()) return {};
  MaskReader reader;
  reader.classes_ = model.classes;
  reader.output_ = static_cast<std::size_t>(logits - model.graph.outputs().begin());
  reader.frames_ = static_cast<std::size_t>(frame - model.tensors.begin());
  reader.inputs_ = model.inputs;
  return reader;
}

std::optional<Image> MaskReader::mask(const nn::Prediction& prediction, const data::Batch& batch,
                                      std::int64_t sample) const {
  const vision::Frame frame = frame_of(batch.tensors[frames_], sample);
  if (is_left_out(frame)) return {};
  const Buffer& all = prediction.outputs[output_];
  const Size input = inputs_[batch.extents];
  const std::int64_t first = sample * classes_ * input.width * input.height;
  return all.dtype == DType::float64 ? mask_of(static_cast<const double*>(all.data) + first, classes_, input, frame)
                                     : mask_of(static_cast<const float*>(all.data) + first, classes_, input, frame);
}

}  // namespace lockstep::workloads
