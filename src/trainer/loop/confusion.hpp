// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/observe/events.hpp"

namespace lockstep::trainer {

/// Counts which class was taken for which one in an evaluation. Counts are exact, so they are the same on any number of
/// ranks.
class Confusion {
 public:
  /// @param names  of the classes; empty: they have numbers only
  Confusion(std::int64_t classes, std::vector<std::string> names);

  void reset();
  /// Counts a sample, or a pixel, of the class `label` that was taken for the class `prediction`.
  void count(std::int64_t label, std::int64_t prediction) {
    ++at(label);
    ++at(classes_ + prediction);
    if (label == prediction) ++at(2 * classes_ + label);
    if (has_matrix_) ++at((3 + label) * classes_ + prediction);
  }
  /// Adds up what all ranks have counted. Collective.
  void reduce(Communicator& communicator);
  /// Adds the intersection over union of each class to the counts, after reduce().
  void add_iou();
  /// Returns "accuracy" and "miou", the mean intersection over union, over all ranks after reduce().
  [[nodiscard]] std::vector<observe::MetricValue> metrics_of_pixels() const;
  /// Returns the counts over all ranks after reduce().
  [[nodiscard]] const observe::ClassCounts& counts() const { return result_; }

 private:
  std::int64_t& at(std::int64_t index) { return counts_[static_cast<std::size_t>(index)]; }

  std::int64_t classes_;
  bool has_matrix_;
  std::vector<std::int64_t> counts_;  // labels, predictions and hits of each class, and the confusion matrix
  observe::ClassCounts result_;
};

}  // namespace lockstep::trainer
