// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/units.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "apps/common/run_app.hpp"
#include "base/nearest.hpp"

namespace lockstep::comm_bench {
namespace {

struct Quantity {
  double number;
  std::string_view unit;
};

/// Splits a positive decimal number from the text after it; returns nothing if there is no such number.
std::optional<Quantity> split(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return std::nullopt;
  return Quantity{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<double> seconds_of(std::string_view unit) {
  if (unit == "ns") return 1e-9;
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit == "s") return 1;
  return std::nullopt;
}

/// Removes a prefix K, M, G or T and returns its factor.
double take_prefix(std::string_view& unit) {
  constexpr std::string_view prefixes = "KMGT";
  const auto found = unit.empty() ? std::string_view::npos : prefixes.find(unit.front());
  if (found == std::string_view::npos) return 1;
  unit.remove_prefix(1);
  return std::pow(1000, static_cast<double>(found + 1));
}

std::optional<double> bytes_of(std::string_view unit) {
  const double factor = take_prefix(unit);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  if (unit == "bit") return factor / 8;
  if (unit == "B") return factor;
  return std::nullopt;
}

}  // namespace

double parse_duration(std::string_view text) {
  const auto quantity = split(text);
  const auto unit = quantity ? seconds_of(quantity->unit) : std::nullopt;
  if (unit) return quantity->number * *unit;
  throw UsageError("'" + echo(text) + "' is not a duration; write a positive number with ns, us, ms or s, like 2us");
}

double parse_bandwidth(std::string_view text) {
  const auto quantity = split(text);
  const auto unit = quantity ? bytes_of(quantity->unit) : std::nullopt;
  if (unit) return quantity->number * *unit;
  throw UsageError("'" + echo(text) +
                   "' is not a bandwidth; write a positive number of bits or bytes per second, with K, M, G or T for "
                   "powers of 1000, like 400Gbit or 50GB");
}

}  // namespace lockstep::comm_bench
