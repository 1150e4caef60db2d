// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/events.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lockstep::observe {

bool MetricValue::is_better_than(const std::optional<double>& other) const {
  if (!value || !other) return value.has_value();
  if (std::isnan(*value) || std::isnan(*other)) return !std::isnan(*value);
  return higher_is_better ? *value > *other : *value < *other;
}

std::string MetricValue::text() const {
  if (!value) return "-";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), is_fraction ? "%.2f %%" : "%.4f", is_fraction ? 100 * *value : *value);
  return text.data();
}

std::optional<double> value_of(std::span<const MetricValue> metrics, std::string_view name) {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](const MetricValue& metric) { return metric.name == name; });
  return found == metrics.end() ? std::nullopt : found->value;
}

}  // namespace lockstep::observe
