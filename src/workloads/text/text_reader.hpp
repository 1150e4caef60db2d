// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// What a network reads in a picture: the characters by class, and how sure it is.
struct ReadText {
  std::vector<std::int32_t> labels;
  double confidence = 0;  ///< the mean probability of the characters; 0 without any
};

/// Returns the characters of labels as a text.
std::string text_of(std::span<const std::int32_t> labels, const std::vector<std::string>& class_names);

/// Reads texts from the output of a network that is trained by CTC.
class TextReader {
 public:
  /// Returns the reader for a model; nothing unless its first loss is CTC over the blank and the classes of the data,
  /// and reads an output of the model.
  static std::optional<TextReader> of(const FoundModel& model);

  /// Takes the likeliest class at each step, the first of equal ones, and drops repetitions and then blanks.
  /// @param sample  position in the batch
  [[nodiscard]] ReadText read(const nn::Prediction& prediction, std::int64_t samples, std::int64_t sample) const;

 private:
  std::size_t output_ = 0;    // index among the outputs
  std::int64_t classes_ = 0;  // with the blank
  std::int32_t blank_ = 0;
};

}  // namespace lockstep::workloads
