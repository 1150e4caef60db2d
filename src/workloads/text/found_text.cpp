// SPDX-License-Identifier: Apache-2.0
#include "workloads/text/found_text.hpp"

#include <cmath>
#include <memory>

#include "base/wrapped.hpp"

namespace lockstep::workloads {
namespace {

std::string captioned(const ReadText& read, const std::string& text) {
  return text + format_text(" %.0f%%", 100 * read.confidence);
}

}  // namespace

void FoundText::add_to(nlohmann::ordered_json& object, const std::vector<std::string>& class_names) const {
  object["text"] = text_of(text_.labels, class_names);
  object["confidence"] = std::round(1e6 * text_.confidence) / 1e6;
}

void FoundText::draw(const std::vector<std::string>& class_names, vision::Image& picture) const {
  picture =
      vision::with_caption(picture, {captioned(text_, text_of(text_.labels, class_names)), vision::class_color(0)});
}

vision::Caption FoundText::caption(const std::vector<std::string>& class_names,
                                   const vision::Annotation& annotation) const {
  constexpr vision::Color right{60, 170, 80};
  constexpr vision::Color wrong{200, 50, 50};
  const std::string text = text_of(text_.labels, class_names);
  return {captioned(text_, text), text == annotation.text ? right : wrong};
}

Find find_texts(const FoundModel& model, const FindOptions& /*options*/) {
  const auto reader = TextReader::of(model);
  if (!reader) return {};
  return [reader = *reader](const nn::Prediction& prediction, const data::Batch& batch, std::int64_t sample) {
    return std::make_unique<FoundText>(reader.read(prediction, batch.samples.value, sample));
  };
}

}  // namespace lockstep::workloads
