// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/events.hpp"

namespace lockstep::observe {
namespace {

std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? std::nullopt : std::optional(static_cast<double>(part) / static_cast<double>(whole));
}

/// Returns the mean of the values that classes have; 0 if none has one.
template <typename ValueOf>
double mean_of(std::size_t classes, const ValueOf& value_of) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t label = 0; label < classes; ++label) {
    const std::optional<double> value = value_of(label);
    sum += value.value_or(0);
    count += value ? 1 : 0;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

std::string ClassCounts::name_of(std::size_t label) const {
  return label < names.size() ? names[label] : std::to_string(label);
}

std::optional<double> ClassCounts::recall(std::size_t label) const { return ratio(hits[label], labels[label]); }

std::optional<double> ClassCounts::precision(std::size_t label) const { return ratio(hits[label], predictions[label]); }

std::optional<double> ClassCounts::f1(std::size_t label) const {
  return ratio(2 * hits[label], labels[label] + predictions[label]);
}

std::optional<double> ClassCounts::iou(std::size_t label) const {
  return ratio(hits[label], labels[label] + predictions[label] - hits[label]);
}

double ClassCounts::macro_f1() const {
  return mean_of(labels.size(), [this](std::size_t label) { return f1(label); });
}

double ClassCounts::mean_iou() const {
  return mean_of(labels.size(), [this](std::size_t label) { return iou(label); });
}

}  // namespace lockstep::observe
