// SPDX-License-Identifier: Apache-2.0
// Parses the values of options according to their rows, and keeps them.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "apps/common/command_line.hpp"
#include "base/hash.hpp"
#include "base/nearest.hpp"

namespace lockstep {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

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
  if (words.empty()) return std::nullopt;
  for (const std::string& word : words) {
    if (std::find(domain.words.begin(), domain.words.end(), word) == domain.words.end()) return std::nullopt;
  }
  return text;
}

std::optional<OptionValue> parse(const Duration& domain, const std::string& text) {
  if ((domain.zero.empty() || text != domain.zero) && !seconds_of(text)) return std::nullopt;
  return text;
}

/// Returns what a real number must be.
std::string requirement_of(const Real& range) {
  return std::string("a number ") + (range.above_min ? "above " : "of at least ") + text_of(range.min) +
         (range.below_max ? " and below " : " and at most ") + text_of(range.max) +
         (range.zero.empty() ? "" : ", or " + range.zero);
}

/// Returns the end of the message that rejects an invalid word.
std::string refusal(const Word& domain, const std::string& text) {
  std::string wrong = text;
  for (const std::string& word : words_of(text)) {
    if (domain.several && !parse(Word{domain.words}, word)) wrong = word;
  }
  const std::string meant = did_you_mean(wrong, domain.words);
  return (domain.several && wrong != text ? "'" + echo(wrong) + "' is no such word" : "there is no such choice") +
         (meant.empty() ? ";" : meant) + (meant.empty() ? " there are " : " There are ") + joined(domain.words) +
         (domain.or_number ? ", or " + requirement_of(*domain.or_number) : "");
}

/// Shortens a value for a message. A hash keeps long values apart.
std::string in_short(const std::string& text) {
  std::string shown = echo(text);
  if (shown == text) return shown;
  Fnv1a hash;
  hash.add(text);
  return shown + " (hash " + std::to_string(hash.value()) + ")";
}

}  // namespace

const Option* find_option(const Program& program, std::string_view name) {
  for (const OptionGroup& group : program.groups) {
    for (const Option& option : group.options) {
      if (option.name == name) return &option;
    }
  }
  return nullptr;
}

OptionValue parse_value(const Option& option, const std::string& text, std::string_view place) {
  const auto value = std::visit([&](const auto& domain) { return parse(domain, text); }, option.domain);
  if (value) return *value;
  const auto* word = std::get_if<Word>(&option.domain);
  throw UsageError("--" + option.name + ' ' + (text.empty() ? "''" : echo(text)) + std::string(place) + ": " +
                   (word != nullptr ? refusal(*word, text) : "it must be " + range_text(option.domain)) +
                   (option.advice.empty() ? "" : "; " + option.advice));
}

std::string range_text(const Domain& domain) {
  const auto or_zero = [](const std::string& word) { return word.empty() ? "" : ", or " + word; };
  return std::visit(Overloaded{[](const Switch&) { return std::string("yes or no"); },
                               [](const Text& text) {
                                 return std::string(text.placeholder == "FILE"  ? "the name of a file"
                                                    : text.placeholder == "DIR" ? "the name of a folder"
                                                                                : "a text") +
                                        (text.may_be_empty ? "" : ", not empty");
                               },
                               [](const Word& word) {
                                 return (word.several ? "one or more, with commas between, of " : "one of ") +
                                        joined(word.words, ", ") +
                                        (word.or_number ? ", or " + requirement_of(*word.or_number) : "");
                               },
                               [&](const Whole& range) {
                                 return "a whole number from " + std::to_string(range.min) + " to " +
                                        std::to_string(range.max) + or_zero(range.zero);
                               },
                               [](const Real& range) { return requirement_of(range); },
                               [&](const Duration& range) {
                                 return "a time such as 90s, 10m, 23h50m or 1d12h" + or_zero(range.zero);
                               }},
                    domain);
}

std::string text_of(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string text_of(const OptionValue& value) {
  return std::visit(
      Overloaded{[](bool yes) { return std::string(yes ? "yes" : "no"); },
                 [](std::int64_t number) { return std::to_string(number); },
                 [](double number) { return text_of(number); }, [](const std::string& text) { return text; }},
      value);
}

std::optional<OptionValue> OptionValues::find(std::string_view name) const {
  if (const auto given = given_.find(name); given != given_.end()) return given->second;
  if (const auto otherwise = defaults_.find(name); otherwise != defaults_.end()) return otherwise->second;
  const Option& option = *find_option(*program_, name);
  if (option.otherwise.empty()) return std::nullopt;
  return parse_value(option, option.otherwise);
}

template <typename T>
T OptionValues::get(std::string_view name) const {
  const std::optional<OptionValue> value = find(name);
  return value ? std::get<T>(*value) : T();
}
template <>
int OptionValues::get<int>(std::string_view name) const {
  return static_cast<int>(get<std::int64_t>(name));
}
template bool OptionValues::get<bool>(std::string_view) const;
template std::int64_t OptionValues::get<std::int64_t>(std::string_view) const;
template double OptionValues::get<double>(std::string_view) const;
template std::string OptionValues::get<std::string>(std::string_view) const;

template <typename Call>
void OptionValues::for_each_row(const Call& call) const {
  for (const OptionGroup& group : program_->groups)
    for (const Option& option : group.options) call(option);
}

std::vector<OptionValues::Conflict> OptionValues::store_and_check() const {
  for_each_row([this](const Option& option) {
    const std::optional<OptionValue> value = option.store ? find(option.name) : std::nullopt;
    if (value) option.store(*value);
  });
  std::vector<Conflict> conflicts;
  for_each_row([&](const Option& option) {
    std::string conflict = option.conflict ? option.conflict(*this) : "";
    if (!conflict.empty()) conflicts.push_back({option.name, std::move(conflict)});
  });
  return conflicts;
}

void OptionValues::refuse(const std::vector<Conflict>& conflicts) {
  std::string text;
  for (const Conflict& conflict : conflicts) text += (text.empty() ? "" : "\n  ") + conflict.text;
  if (!text.empty()) throw UsageError(text);
}

void OptionValues::add(const OptionValues& file) {
  for (const auto& [name, value] : file.given_)
    if (give(name, value)) from_file_.insert(name);
  for (OptionNote note : file.notes_) {
    note.is_in_file = true;
    notes_.push_back(std::move(note));
  }
}

void OptionValues::type(const std::string& name, const std::optional<std::string>& value) {
  const bool is_apart = value && !value->empty() && !value->starts_with('-');  // else the value needs a '='
  words_.push_back("--" + name + (value && !is_apart ? '=' + *value : ""));
  if (is_apart) words_.push_back(*value);
}

namespace {

/// The first field for lockstep-launch, which also looks for it in a program's file before it asks the program.
[[gnu::used]] constexpr char launcher_mark[] = "lockstep-launch may ask this program for its options";

}  // namespace

std::string OptionValues::for_launcher() const {
  std::string text = launcher_mark + std::string(1, '\0');
  const auto field = [&text](std::string_view kind, const std::string& what) {
    text += std::string(kind) + what + std::string(1, '\0');
  };
  for (const std::string& word : words_) field("word ", word);
  for (const auto& [name, value] : given_) field("value ", name + '=' + text_of(value));
  for (const OptionNote& note : notes_)
    if (!note.is_in_file) field("note ", note.text);
  return text;
}

namespace {

/// Returns a value as the user may write it.
std::string written(const Option& option, const OptionValue& value) {
  const auto word = [](const auto& domain) {
    if constexpr (requires { domain.zero; }) return domain.zero;
    return std::string();
  };
  const std::string zero = std::visit(word, option.domain);
  const bool is_zero = value == OptionValue(std::int64_t{0}) || value == OptionValue(0.0);
  return is_zero && !zero.empty() ? zero : text_of(value);
}

/// Returns a value as a line of a configuration file has it: in quotation marks where it would not be read as it is.
std::string quoted_if_needed(const std::string& value) {
  constexpr std::string_view blank = " \t\r";
  const bool is_plain = !value.empty() && value.find_first_of("#'\"") == std::string::npos &&
                        blank.find(value.front()) == std::string_view::npos &&
                        blank.find(value.back()) == std::string_view::npos;
  if (is_plain) return value;
  std::string quoted = "'";
  for (const char character : value) quoted += character == '\'' ? "''" : std::string(1, character);
  return quoted + '\'';
}

/// Returns whether a user could give the value; some defaults mean that there is none.
bool is_valid(const Option& option, const OptionValue& value) {
  try {
    return parse_value(option, written(option, value)) == value;
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> OptionValues::of_all_ranks() const {
  std::vector<std::pair<std::string, std::string>> values;
  for_each_row([&](const Option& option) {
    if (option.of_each_rank) return;
    const std::optional<OptionValue> value = find(option.name);
    values.emplace_back("--" + option.name, value ? in_short(written(option, *value)) : "(nothing)");
  });
  return values;
}

std::string OptionValues::as_configuration(const std::vector<std::string_view>& except) const {
  OptionValues all = *this;
  for_each_row([&](const Option& option) {
    const std::optional<OptionValue> value = find(option.name);
    const bool is_wanted = std::find(except.begin(), except.end(), option.name) == except.end();
    if (value && is_wanted && is_valid(option, *value)) all.give(option.name, *value);
    if (!is_wanted || (value && text_of(*value).empty())) all.given_.erase(option.name);  // a file has no empty values
  });
  for (bool is_settled = false; !is_settled;) {
    is_settled = true;
    for_each_row([&](const Option& option) {
      if (has(option.name) || !all.has(option.name) || !option.conflict || option.conflict(all).empty()) return;
      all.given_.erase(option.name);
      is_settled = false;
    });
  }
  std::string text;
  for_each_row([&](const Option& option) {
    const auto value = all.given_.find(option.name);
    if (value == all.given_.end()) return;
    const std::string words = written(option, value->second);
    const bool fits = words.find('\n') == std::string::npos;
    text += fits ? option.name + " = " + quoted_if_needed(words) + '\n'
                 : "# " + option.name + " is left out, because its value has a line break\n";
  });
  return text;
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

}  // namespace lockstep
