// SPDX-License-Identifier: Apache-2.0
#include "workloads/classification/classification.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/wrapped.hpp"
#include "vision/image/draw.hpp"

namespace lockstep::workloads {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_scores = 5;

/// A class, and the probability that the model gives it.
struct Score {
  std::int32_t label = 0;
  double score = 0;
};

/// Returns the likeliest classes of a sample, by softmax. Of equal logits the first is the likelier.
template <typename Real>
std::vector<Score> scores_of(const Real* logits, std::int64_t classes) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
  std::vector<std::int32_t> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), 0);
  const std::size_t kept = std::min(most_scores, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
      [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  std::vector<Score> scores;
  for (std::size_t i = 0; i < kept; ++i) scores.push_back({order[i], std::exp(logits[order[i]] - largest) / sum});
  return scores;
}

const std::string& name_of(const std::vector<std::string>& class_names, const Score& score) {
  return class_names[static_cast<std::size_t>(score.label)];
}

/// The likeliest classes of a picture, the first of which is the prediction.
class Labels final : public Finding {
 public:
  explicit Labels(std::vector<Score> scores) : scores_(std::move(scores)) {}

  void add_to(Json& object, const std::vector<std::string>& class_names) const override {
    Json& labels = object["labels"] = Json::array();
    for (const Score& score : scores_)
      labels.push_back({{"class", score.label},
                        {"name", name_of(class_names, score)},
                        {"score", std::round(1e6 * score.score) / 1e6}});
  }
  void draw(const std::vector<std::string>& class_names, vision::Image& picture) const override {
    const Score& best = scores_.front();
    const vision::Caption label{name_of(class_names, best) + format_text(" %.1f %%", 100 * best.score),
                                vision::class_color(best.label)};
    if (vision::text_width(label.text) > picture.width) {
      picture = vision::with_caption(picture, label);
    } else {
      vision::draw_label(label.text, 0, 0, label.color, picture);
    }
  }
  [[nodiscard]] vision::Caption caption(const std::vector<std::string>& class_names,
                                        const vision::Annotation& annotation) const override {
    constexpr vision::Color right{60, 170, 80};
    constexpr vision::Color wrong{200, 50, 50};
    const Score& best = scores_.front();
    return {name_of(class_names, best) + format_text(" %.0f%%", 100 * best.score),
            annotation.label == best.label ? right : wrong};
  }

 private:
  std::vector<Score> scores_;
};

Find find_labels(const FoundModel& model, const FindOptions& /*options*/) {
  const auto& [graph, tensors, classes, inputs] = model;
  const auto logits = std::ranges::find_if(graph.outputs(), [&graph = graph, classes = classes](const nn::Output& one) {
    const ops::Shape shape = graph.shape(one.value);
    return shape.channels == classes && shape.height * shape.width == 1;
  });
  if (logits == graph.outputs().end()) return {};
  const auto output = static_cast<std::size_t>(logits - graph.outputs().begin());
  return [output, classes = classes](const nn::Prediction& prediction, const data::Batch& /*batch*/,
                                     std::int64_t sample) {
    const Buffer& all = prediction.outputs[output];
    return std::make_unique<Labels>(all.dtype == DType::float64
                                        ? scores_of(static_cast<const double*>(all.data) + sample * classes, classes)
                                        : scores_of(static_cast<const float*>(all.data) + sample * classes, classes));
  };
}

std::string why_no_labels(const vision::Source& source) {
  for (std::int64_t sample = 0; sample < source.size(); ++sample)
    if (source.annotation(sample).label >= 0) return {};
  return "its pictures have boxes, and no class each, which classification needs";
}

vision::InputSize input_of(const vision::Source& source, const vision::Size& given) {
  return given.width > 0 ? vision::given_input(source, given) : vision::default_input(source);
}

std::shared_ptr<const vision::Collate> labels() { return std::make_shared<vision::LabelCollate>(); }

}  // namespace

PictureTask classification() {
  return {.why_not = why_no_labels,
          .input = input_of,
          .normalization = vision::default_normalization,
          .pipelines = vision::classification_pipelines,
          .step = vision::classification_step,
          .collate = [](const std::vector<const vision::Source*>&) { return labels(); },
          .collate_of_model = [](const std::vector<TensorSpec>&) { return labels(); },
          .find = find_labels};
}

}  // namespace lockstep::workloads
