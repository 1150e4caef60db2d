// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/class_table.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"

namespace lockstep::train {
namespace {

using observe::ClassCounts;

/// Returns "91.20 %", or "-" where there is no value, in nine columns.
std::string cell(const std::optional<double>& value) {
  return value ? format_text("%7.2f %%", 100 * *value) : std::string(8, ' ') + '-';
}

/// Returns the mean of the classes that have a value.
template <typename Value>
std::optional<double> mean_of(const ClassCounts& counts, const Value& value_of) {
  double sum = 0;
  int classes = 0;
  for (std::size_t label = 0; label < counts.labels.size(); ++label) {
    const std::optional<double> value = value_of(label);
    sum += value.value_or(0);
    classes += value ? 1 : 0;
  }
  return classes == 0 ? std::nullopt : std::optional(sum / classes);
}

std::string right_aligned(std::int64_t number) { return format_text("  %8lld", static_cast<long long>(number)); }

/// Returns the numbers of images with a class, where there are any, and of its samples or boxes.
std::string counts_of(const ClassCounts& counts, std::size_t label) {
  return (counts.images.empty() ? std::string() : right_aligned(counts.images[label])) +
         right_aligned(counts.labels[label]);
}

std::string sums_of(const ClassCounts& counts) {
  const auto sum = [](const std::vector<std::int64_t>& of) {
    return std::accumulate(of.begin(), of.end(), std::int64_t{0});
  };
  return (counts.images.empty() ? std::string() : std::string(10, ' ')) + right_aligned(sum(counts.labels));
}

/// Returns the fractions of a line, which begin with a column of space. @param more  returns that of `counts.values`
template <typename More>
std::string fractions(const ClassCounts& counts, const std::vector<std::optional<double>>& usual, const More& more) {
  std::string text;
  for (const std::optional<double>& value : usual) text += "  " + cell(value);
  for (const observe::ClassValues& values : counts.values) text += "  " + cell(more(values));
  return text;
}

std::string heading(const ClassCounts& counts, std::size_t width) {
  std::string text = padded("class", width) + (counts.images.empty() ? "   samples" : "    images     boxes") +
                     "     recall  precision         F1";
  for (const observe::ClassValues& values : counts.values)
    text += std::string(11 - std::min<std::size_t>(11, values.name.size()), ' ') + values.name;
  return text + '\n';
}

/// Returns the matrix with a line for each label and a column for each prediction; nothing if that is too wide.
std::string matrix_of(const ClassCounts& counts, const std::vector<std::string>& names, std::size_t width,
                      std::size_t columns) {
  const std::size_t classes = names.size();
  const std::int64_t most = *std::ranges::max_element(counts.confusion);
  const std::size_t digits = std::max(std::to_string(most).size(), std::to_string(classes - 1).size());
  if (width + (1 + classes) * (2 + digits) > columns) return {};
  const auto right = [&](std::int64_t number) {
    const std::string text = std::to_string(number);
    return std::string(2 + digits - text.size(), ' ') + text;
  };
  std::string text = padded("taken for class", width + right(0).size());
  for (std::size_t i = 0; i < classes; ++i) text += right(static_cast<std::int64_t>(i));
  text += '\n';
  for (std::size_t label = 0; label < classes; ++label) {
    text += padded(names[label], width) + right(static_cast<std::int64_t>(label));
    for (std::size_t i = 0; i < classes; ++i) text += right(counts.confusion[label * classes + i]);
    text += '\n';
  }
  return text;
}

/// Returns "taken for another class most often: cat for dog 102, …".
std::string most_confused(const ClassCounts& counts, const std::vector<std::string>& names, std::size_t columns) {
  constexpr std::size_t most = 10;
  const std::size_t classes = names.size();
  std::vector<std::size_t> pairs;
  for (std::size_t i = 0; i < counts.confusion.size(); ++i)
    if (i / classes != i % classes && counts.confusion[i] > 0) pairs.push_back(i);
  const std::size_t shown = std::min(most, pairs.size());
  std::ranges::partial_sort(pairs, pairs.begin() + static_cast<std::ptrdiff_t>(shown), {},
                            [&](std::size_t pair) { return std::pair(-counts.confusion[pair], pair); });
  if (shown == 0) return {};
  std::string text = "taken for another class most often:";
  for (std::size_t i = 0; i < shown; ++i)
    text += (i == 0 ? " " : ", ") + names[pairs[i] / classes] + " for " + names[pairs[i] % classes] + ' ' +
            std::to_string(counts.confusion[pairs[i]]);
  return wrapped(text, columns);
}

}  // namespace

std::string class_table(const ClassCounts& counts, std::size_t columns) {
  std::vector<std::string> names;
  std::size_t width = std::string_view("taken for class").size();
  for (std::size_t label = 0; label < counts.labels.size(); ++label) {
    names.push_back(echo(counts.name_of(label)));
    width = std::max(width, columns_of(names.back()));
  }
  const auto recall = [&](std::size_t label) { return counts.recall(label); };
  const auto precision = [&](std::size_t label) { return counts.precision(label); };
  std::string text = heading(counts, width);
  for (std::size_t label = 0; label < names.size(); ++label)
    text += padded(names[label], width) + counts_of(counts, label) +
            fractions(counts, {recall(label), precision(label), counts.f1(label)},
                      [&](const observe::ClassValues& values) { return values.values[label]; }) +
            '\n';
  text += padded("macro average", width) + sums_of(counts) +
          fractions(counts, {mean_of(counts, recall), mean_of(counts, precision), counts.macro_f1()},
                    [&](const observe::ClassValues& values) {
                      return mean_of(counts, [&](std::size_t label) { return values.values[label]; });
                    }) +
          '\n';
  if (counts.confusion.empty()) return text;
  const std::string matrix = matrix_of(counts, names, width, columns);
  return text + '\n' + (matrix.empty() ? most_confused(counts, names, columns) : matrix);
}

std::string absent_classes(const ClassCounts& counts, std::size_t columns) {
  constexpr std::size_t most_named = 20;
  const auto counts_in_averages = [&counts](std::size_t label) {
    const auto has_value = [label](const observe::ClassValues& values) { return values.values[label].has_value(); };
    return counts.values.empty() ? counts.f1(label).has_value() : std::ranges::any_of(counts.values, has_value);
  };
  std::string names;
  std::size_t absent = 0;
  for (std::size_t label = 0; label < counts.labels.size(); ++label) {
    if (counts_in_averages(label) || ++absent > most_named) continue;
    names += (names.empty() ? "" : ", ") + echo(counts.name_of(label));
  }
  if (absent == 0) return {};
  if (absent > most_named) names += " and " + std::to_string(absent - most_named) + " more";
  return wrapped("averages leave out these classes, which no test sample has: " + names, columns);
}

}  // namespace lockstep::train
