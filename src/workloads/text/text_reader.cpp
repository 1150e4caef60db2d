// SPDX-License-Identifier: Apache-2.0
#include "workloads/text/text_reader.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

namespace lockstep::workloads {
namespace {

/// The likeliest class at a step, and its probability.
struct Likeliest {
  std::int32_t index = 0;
  double probability = 0;
};

/// @param logits  of a step: `classes` numbers, `steps` apart
template <typename Real>
Likeliest likeliest(const Real* logits, std::int64_t classes, std::int64_t steps) {
  Likeliest found;
  for (std::int64_t c = 1; c < classes; ++c)
    if (logits[c * steps] > logits[found.index * steps]) found.index = static_cast<std::int32_t>(c);
  const double largest = logits[found.index * steps];
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(logits[c * steps]) - largest);
  found.probability = 1 / sum;
  return found;
}

/// @param logits  of a sample: classes × steps
template <typename Real>
ReadText read_steps(const Real* logits, std::int64_t classes, std::int64_t steps, std::int32_t blank) {
  ReadText text;
  std::int32_t before = blank;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto [index, probability] = likeliest(logits + step, classes, steps);
    if (index != blank && index != before) {
      text.labels.push_back(index < blank ? index : index - 1);
      text.confidence += probability;
    }
    before = index;
  }
  if (!text.labels.empty()) text.confidence /= static_cast<double>(text.labels.size());
  return text;
}

}  // namespace

std::string text_of(std::span<const std::int32_t> labels, const std::vector<std::string>& class_names) {
  std::string text;
  for (const std::int32_t label : labels) text += class_names[static_cast<std::size_t>(label)];
  return text;
}

std::optional<TextReader> TextReader::of(const FoundModel& model) {
  if (model.graph.losses().empty()) return {};
  const nn::Node& loss = model.graph.nodes()[static_cast<std::size_t>(model.graph.losses().front().node)];
  const auto* ctc = std::get_if<ops::Ctc>(&loss.op);
  if (ctc == nullptr) return {};
  const auto logits = std::ranges::find(model.graph.outputs(), loss.inputs.front(), &nn::Output::value);
  if (logits == model.graph.outputs().end() || model.graph.shape(logits->value).channels != model.classes + 1)
    return {};
  TextReader reader;
  reader.output_ = static_cast<std::size_t>(logits - model.graph.outputs().begin());
  reader.classes_ = model.classes + 1;
  reader.blank_ = ctc->blank;
  return reader;
}

ReadText TextReader::read(const nn::Prediction& prediction, std::int64_t samples, std::int64_t sample) const {
  const Buffer& all = prediction.outputs[output_];
  const std::int64_t steps = all.count.value / (samples * classes_);  // which follow from the width of the batch
  const std::int64_t first = sample * classes_ * steps;
  return all.dtype == DType::float64 ? read_steps(static_cast<const double*>(all.data) + first, classes_, steps, blank_)
                                     : read_steps(static_cast<const float*>(all.data) + first, classes_, steps, blank_);
}

}  // namespace lockstep::workloads
