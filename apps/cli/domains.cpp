// SPDX-License-Identifier: Apache-2.0
// Parses and describes the values of options by their domains.
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "apps/cli/command_line.hpp"
#include "base/nearest.hpp"

namespace lockstep::cli {
namespace {

/// Parses the whole text as a number; returns nothing if it is not a number or out of the type's range.
template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<OptionValue> parse(const Switch&, const std::string& text) {
  std::string word = text;
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "yes" || word == "true" || word == "on" || word == "1") return true;
  if (word == "no" || word == "false" || word == "off" || word == "0") return false;
  return std::nullopt;
}

std::optional<OptionValue> parse(const Text& domain, const std::string& text) {
  if (text.empty() && !domain.may_be_empty) return std::nullopt;
  return text;
}

std::optional<OptionValue> parse(const Whole& domain, const std::string& text) {
  if (!domain.zero.empty() && text == domain.zero) return std::int64_t{0};
  const auto number = number_of<std::int64_t>(text);
  if (!number || *number < domain.min || *number > domain.max) return std::nullopt;
  return *number;
}

std::optional<OptionValue> parse(const Real& domain, const std::string& text) {
  if (!domain.zero.empty() && text == domain.zero) return 0.0;
  const auto number = number_of<double>(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const bool high_enough = domain.above_min ? *number > domain.min : *number >= domain.min;
  const bool low_enough = domain.below_max ? *number < domain.max : *number <= domain.max;
  if (!high_enough || !low_enough) return std::nullopt;
  return *number;
}

std::optional<OptionValue> parse(const Word& domain, const std::string& text) {
  const auto number = domain.or_number ? parse(*domain.or_number, text) : std::nullopt;
  if (number) return text_of(*number);
  const std::vector<std::string> words = domain.several ? words_of(text) : std::vector{text};
  const auto is_known = [&](const std::string& word) {
    return std::ranges::find(domain.words, word) != domain.words.end();
  };
  if (words.empty() || !std::ranges::all_of(words, is_known)) return std::nullopt;
  return text;
}

std::optional<OptionValue> parse(const Duration& domain, const std::string& text) {
  if ((domain.zero.empty() || text != domain.zero) && !seconds_of(text)) return std::nullopt;
  return text;
}

/// Returns the word that means 0 behind other text; empty if there is none.
std::string or_zero(const std::string& word, const char* separator) { return word.empty() ? "" : separator + word; }

DomainTexts describe(const Switch&) { return {"yes or no", "yes|no", ""}; }

DomainTexts describe(const Text& text) {
  const bool is_file = text.placeholder == "FILE";
  const std::string what = is_file                     ? "the name of a file"
                           : text.placeholder == "DIR" ? "the name of a folder"
                                                       : "a text";
  return {what + (text.may_be_empty ? "" : ", not empty"),
          text.implied.empty() ? text.placeholder : '[' + text.placeholder + ']', ""};
}

DomainTexts describe(const Whole& range) {
  const std::string bounds = std::to_string(range.min) + " to " + std::to_string(range.max);
  return {"a whole number from " + bounds + or_zero(range.zero, ", or "), "N", bounds + or_zero(range.zero, " or ")};
}

DomainTexts describe(const Real& range) {
  const std::string min = text_of(range.min);
  const std::string max = text_of(range.max);
  return {std::string("a number ") + (range.above_min ? "above " : "of at least ") + min +
              (range.below_max ? " and below " : " and at most ") + max + or_zero(range.zero, ", or "),
          "X",
          min + (range.above_min ? " < X " : " <= X ") + (range.below_max ? "< " : "<= ") + max +
              or_zero(range.zero, " or ")};
}

DomainTexts describe(const Duration& range) {
  return {"a time such as 90s, 10m, 23h50m or 1d12h" + or_zero(range.zero, ", or "), "TIME",
          "such as 90s, 10m or 23h50m"};
}

DomainTexts describe(const Word& word) {
  const std::string list = joined(word.words);
  const DomainTexts number = word.or_number ? describe(*word.or_number) : DomainTexts();
  const std::string placeholder = !word.implied.empty() ? ""
                                  : word.or_number      ? list + '|' + number.placeholder
                                  : word.several        ? "NAME,..."
                                  : list.size() <= 16   ? list
                                                        : "NAME";
  return {(word.several ? "one or more, with commas between, of " : "one of ") + joined(word.words, ", ") +
              or_zero(number.requirement, ", or "),
          placeholder,
          word.or_number        ? number.values
          : placeholder == list ? ""
                                : joined(word.words, ", ")};
}

/// Returns the end of the message that rejects an invalid word.
std::string refusal(const Word& domain, const std::string& text) {
  std::string wrong = text;
  for (const std::string& word : words_of(text)) {
    if (domain.several && !parse(Word{domain.words}, word)) wrong = word;
  }
  const std::string meant = did_you_mean(wrong, domain.words);
  return (domain.several && wrong != text ? "'" + echo(wrong) + "' is no such word" : "there is no such choice") +
         (meant.empty() ? "; there are " : meant + " There are ") + joined(domain.words) +
         (domain.or_number ? ", or " + describe(*domain.or_number).requirement : "");
}

}  // namespace

DomainTexts texts_of(const Domain& domain) {
  return std::visit([](const auto& one) { return describe(one); }, domain);
}

OptionValue parse_value(const Option& option, const std::string& text, std::string_view place) {
  const auto value = std::visit([&](const auto& domain) { return parse(domain, text); }, option.domain);
  if (value) return *value;
  const auto* word = std::get_if<Word>(&option.domain);
  throw UsageError("--" + option.name + ' ' + (text.empty() ? "''" : echo(text)) + std::string(place) + ": " +
                   (word != nullptr ? refusal(*word, text) : "it must be " + texts_of(option.domain).requirement) +
                   (option.advice.empty() ? "" : "; " + option.advice));
}

std::string text_of(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string text_of(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "no";
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole != nullptr ? std::to_string(*whole) : text_of(std::get<double>(value));
}

std::optional<double> seconds_of(std::string_view text) {
  double seconds = 0;
  for (const auto& [unit, length] : {std::pair('d', 86400), {'h', 3600}, {'m', 60}, {'s', 1}}) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    if (end == 0 || end == text.size() || text[end] != unit) continue;
    const auto number = number_of<std::uint32_t>(text.substr(0, end));
    if (!number) return std::nullopt;
    seconds += static_cast<double>(*number) * length;
    text.remove_prefix(end + 1);
  }
  return text.empty() && seconds > 0 ? std::optional(seconds) : std::nullopt;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list.empty() ? list : list + ',');
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  return words;
}

std::string joined(std::span<const std::string_view> words, std::string_view between) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : std::string(between)) + std::string(word);
  return text;
}

}  // namespace lockstep::cli
