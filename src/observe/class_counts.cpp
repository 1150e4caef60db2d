// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/events.hpp"

namespace lockstep::observe {
namespace {

std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? std::nullopt : std::optional(static_cast<double>(part) / static_cast<double>(whole));
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
  double sum = 0;
  std::int64_t classes = 0;
  for (std::size_t label = 0; label < labels.size(); ++label) {
    const std::optional<double> of_class = f1(label);
    sum += of_class.value_or(0);
    classes += of_class ? 1 : 0;
  }
  return classes == 0 ? 0 : sum / static_cast<double>(classes);
}

}  // namespace lockstep::observe
