// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/detection_reader.hpp"

#include <algorithm>
#include <string>

#include "lockstep/base/error.hpp"
#include "workloads/detection/found_boxes.hpp"
#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

constexpr std::string_view output_name = "detections";

auto detections_of(const nn::Graph& graph) {
  return std::ranges::find(graph.outputs(), output_name, &nn::Output::name);
}

}  // namespace

Rectangle to_stored(const Rectangle& in_input, const vision::Frame& frame) {
  const auto x_of = [&](double x) {
    return std::clamp((x - frame.left) / frame.scale_x, 0.0, static_cast<double>(frame.width));
  };
  const auto y_of = [&](double y) {
    return std::clamp((y - frame.top) / frame.scale_y, 0.0, static_cast<double>(frame.height));
  };
  const auto [left, right] = std::minmax({x_of(in_input.x), x_of(in_input.right())});
  const auto [top, bottom] = std::minmax({y_of(in_input.y), y_of(in_input.bottom())});
  return {left, top, right - left, bottom - top};
}

DetectionReader::DetectionReader(const nn::Graph& graph, const std::vector<TensorSpec>& tensors, std::int64_t classes,
                                 const NmsOptions& options)
    : classes_(classes), options_(options) {
  const auto refused = [&](const std::string& why) {
    return Error(ErrorCode::invalid_argument, "model '" + graph.name() + "' cannot be evaluated as a detector: " + why);
  };
  const auto output = detections_of(graph);
  if (output == graph.outputs().end()) throw refused("it has no output 'detections'");
  const std::int64_t numbers = graph.shape(output->value).channels;
  if (numbers != 5 + classes)
    throw refused("its output 'detections' has " + std::to_string(numbers) + " numbers for each box, and " +
                  std::to_string(classes) + " classes need " + std::to_string(5 + classes));
  const auto frames = std::ranges::find(tensors, "frame", &TensorSpec::name);
  if (frames == tensors.end() || frames->elements() != 6 || frames->content != Content::real)
    throw refused("a batch has no tensor 'frame' of six real numbers, which says where pictures lie in the input");
  output_ = static_cast<std::size_t>(output - graph.outputs().begin());
  frames_ = static_cast<std::size_t>(frames - tensors.begin());
}

std::optional<std::vector<Detection>> DetectionReader::detections(const nn::Prediction& prediction,
                                                                  const data::Batch& batch, std::int64_t sample) const {
  const vision::Frame frame = frame_of(batch.tensors[frames_], sample);
  if (is_left_out(frame)) return std::nullopt;
  const Buffer& outputs = prediction.outputs[output_];
  const std::int64_t each = outputs.count.value / batch.samples.value;
  std::vector<Detection> detections = non_max_suppression(slice(outputs, {sample * each}, {each}), classes_, options_);
  for (Detection& one : detections) one.box = to_stored(one.box, frame);
  return detections;
}

std::function<std::unique_ptr<Finding>(const nn::Prediction&, const data::Batch&, std::int64_t sample)> find_boxes(
    const nn::Graph& graph, const std::vector<TensorSpec>& tensors, std::int64_t classes, const NmsOptions& options) {
  if (detections_of(graph) == graph.outputs().end()) return {};
  return [reader = DetectionReader(graph, tensors, classes, options)](const nn::Prediction& prediction,
                                                                      const data::Batch& batch, std::int64_t sample) {
    return std::make_unique<FoundBoxes>(
        reader.detections(prediction, batch, sample).value_or(std::vector<Detection>()));
  };
}

}  // namespace lockstep::workloads
