// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "workloads/finding.hpp"
#include "workloads/text/text_reader.hpp"

namespace lockstep::workloads {

/// The text that a network reads in a picture.
class FoundText final : public Finding {
 public:
  explicit FoundText(ReadText text) : text_(std::move(text)) {}
  /// Adds "text" and "confidence".
  void add_to(nlohmann::ordered_json& object, const std::vector<std::string>& class_names) const override;
  /// Writes it below the picture.
  void draw(const std::vector<std::string>& class_names, vision::Image& picture) const override;
  [[nodiscard]] vision::Caption caption(const std::vector<std::string>& class_names,
                                        const vision::Annotation& annotation) const override;

 private:
  ReadText text_;
};

/// Returns what reads the text of a sample from the output of a network (`TextReader`); empty if it has none.
Find find_texts(const FoundModel& model, const FindOptions& options);

}  // namespace lockstep::workloads
