// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/kernel_choices.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ops {
namespace {

constexpr std::string_view first_line = "lockstep kernel choices, version 2";
constexpr std::string_view explanation =
    "# Under each 'on', lines of: batch, library, its algorithms of forward, backward data, backward weights, "
    "operator.\n";
constexpr std::string_view on = "on ";

std::int64_t parse_batch(const std::string& word) {
  std::int64_t batch = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), batch);
  if (failure != std::errc() || end != word.data() + word.size() || batch < 1) {
    throw Error(ErrorCode::corrupt, "the batch is '" + echo(word) + "'; it must be a whole number above 0");
  }
  return batch;
}

void add_line(KernelChoices& choices, const std::string& line) {
  std::istringstream words(line);
  std::string batch;
  KernelAlgorithms algorithms;
  std::string key;
  words >> batch;
  const std::int64_t samples = parse_batch(batch);
  words >> algorithms.library >> algorithms.forward >> algorithms.backward_data >> algorithms.backward_weights;
  std::getline(words >> std::ws, key);
  if (key.empty()) {
    throw Error(ErrorCode::corrupt,
                "'" + echo(line) + "' is too short: it needs a batch, a library, three algorithms and an operator");
  }
  if (choices.at(key, samples) != nullptr) {
    throw Error(ErrorCode::corrupt,
                "batch " + batch + " of '" + echo(key) + "' has a line already; delete one of them");
  }
  choices.set(key, samples, algorithms);
}

/// Calls `take(line)` for each line that is neither empty nor a comment. An error that it throws gets the source and
/// the line number in front.
template <typename Take>
void each_line(const std::string& text, const std::string& source, const Take& take) {
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    try {
      take(line);
    } catch (const Error& error) {
      throw Error(ErrorCode::corrupt, source + ", line " + std::to_string(number) + ": " + error.message());
    }
  }
}

std::string text_of(const Pair& pair) { return std::to_string(pair.height) + 'x' + std::to_string(pair.width); }

}  // namespace

const KernelAlgorithms* KernelChoices::at(const std::string& key, std::int64_t batch) const {
  const auto operators = by_key_.find(key);
  if (operators == by_key_.end()) return nullptr;
  const auto found = operators->second.find(batch);
  return found == operators->second.end() ? nullptr : &found->second;
}

const KernelAlgorithms* KernelChoices::find(const std::string& key, std::int64_t batch) const {
  const auto operators = by_key_.find(key);
  if (operators == by_key_.end()) return nullptr;
  const auto& batches = operators->second;
  const auto above = batches.lower_bound(batch);
  if (above == batches.begin()) return &above->second;
  const auto below = std::prev(above);
  const bool is_nearer_above = above != batches.end() && above->first - batch < batch - below->first;
  return is_nearer_above ? &above->second : &below->second;
}

void KernelChoices::add(const KernelChoices& other) {
  for (const auto& [key, batches] : other.by_key_)
    for (const auto& [batch, algorithms] : batches) set(key, batch, algorithms);
}

std::size_t KernelChoices::size() const {
  std::size_t number = 0;
  for (const auto& [key, batches] : by_key_) number += batches.size();
  return number;
}

std::string KernelChoices::hash() const {
  Fnv1a hash;
  hash.add(text());
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash.value()));
  return digits;
}

std::string KernelChoices::text() const {
  std::string lines;
  for (const auto& [key, batches] : by_key_) {
    for (const auto& [batch, algorithms] : batches) {
      lines += std::to_string(batch);
      for (const std::string& word :
           {algorithms.library, algorithms.forward, algorithms.backward_data, algorithms.backward_weights, key})
        lines += ' ' + word;
      lines += '\n';
    }
  }
  return lines;
}

KernelChoices KernelChoices::parse(const std::string& text, const std::string& source) {
  KernelChoices choices;
  each_line(text, source, [&](const std::string& line) { add_line(choices, line); });
  return choices;
}

KernelChoices KernelChoices::of(std::string_view library) const {
  KernelChoices own;
  for (const auto& [key, batches] : by_key_)
    for (const auto& [batch, algorithms] : batches)
      if (algorithms.library == library) own.set(key, batch, algorithms);
  return own;
}

void KernelChoices::require(std::string_view library, std::span<const std::string_view> algorithms,
                            const std::string& reason) const {
  const auto is_known = [&](const std::string& word) {
    return std::find(algorithms.begin(), algorithms.end(), word) != algorithms.end();
  };
  for (const auto& [key, batches] : by_key_) {
    for (const auto& [batch, chosen] : batches) {
      const std::string operation = "the " + key + ", at batch " + std::to_string(batch) + ", is to be computed by ";
      if (chosen.library != library)
        throw Error(ErrorCode::unsupported,
                    operation + "'" + echo(chosen.library) + "', not by " + std::string(library));
      for (const std::string& word : {chosen.forward, chosen.backward_data, chosen.backward_weights}) {
        if (!is_known(word))
          throw Error(ErrorCode::unsupported, reason + ", and " + operation + "algorithm '" + echo(word) + "'");
      }
    }
  }
}

std::string key_of(const Operator& op, Formats inputs) {
  const auto* convolution = std::get_if<Convolution>(&op);
  if (convolution == nullptr) return {};
  const Convolution& c = *convolution;
  const Shape& in = inputs[0].shape;
  return "convolution of " + std::to_string(in.channels) + 'x' + text_of(Pair(in.height, in.width)) + " to " +
         std::to_string(c.out_channels) + ", kernel " + text_of(c.kernel) + ", stride " + text_of(c.stride) +
         ", padding " + text_of(c.padding) + ", dilation " + text_of(c.dilation) + ", groups " +
         std::to_string(c.groups) + (c.bias ? ", bias" : "") + (c.activation == Activation::relu ? ", relu" : "") +
         (c.statistics ? ", statistics" : "") + ", " + std::string(name(inputs[0].dtype));
}

KernelChoicesByConditions parse_choices_file(const std::string& text, const std::string& file) {
  KernelChoicesByConditions all;
  KernelChoices* section = nullptr;
  bool has_begun = false;
  each_line(text, file, [&](const std::string& line) {
    if (!has_begun) {
      if (line != first_line) {
        throw Error(ErrorCode::corrupt, "here is '" + echo(line) + "'; a file of choices begins with '" +
                                            std::string(first_line) + "'. Give another file, or delete this one");
      }
      has_begun = true;
    } else if (line.starts_with(on)) {
      const auto [place, is_new] = all.try_emplace(line.substr(on.size()));
      if (!is_new)
        throw Error(ErrorCode::corrupt, "'" + echo(line) + "' is there twice; put what is under both together");
      section = &place->second;
    } else if (section == nullptr) {
      throw Error(ErrorCode::corrupt, "'" + echo(line) + "' has no line before it that begins with '" +
                                          std::string(on) + "' and says what it was measured on");
    } else {
      add_line(*section, line);
    }
  });
  if (!has_begun) throw Error(ErrorCode::corrupt, file + " is empty: delete it, and it will be written again");
  return all;
}

std::string format_choices_file(const KernelChoicesByConditions& choices) {
  std::string text = std::string(first_line) + '\n' + std::string(explanation);
  for (const auto& [conditions, found] : choices) text += '\n' + std::string(on) + conditions + '\n' + found.text();
  return text;
}

}  // namespace lockstep::ops
