// SPDX-License-Identifier: Apache-2.0
// Keeps the values of options.

#include "apps/cli/command_line.hpp"
#include "base/hash.hpp"
#include "base/nearest.hpp"

namespace lockstep::cli {

std::vector<const Option*> rows_of(const Program& program) {
  std::vector<const Option*> rows;
  for (const OptionGroup& group : program.groups)
    for (const Option& option : group.options) rows.push_back(&option);
  return rows;
}

const Option* find_option(const Program& program, std::string_view name) {
  for (const OptionGroup& group : program.groups)
    for (const Option& option : group.options)
      if (option.name == name) return &option;
  return nullptr;
}

std::optional<OptionValue> OptionValues::find(std::string_view name) const {
  if (const auto given = given_.find(name); given != given_.end()) return given->second;
  if (const auto otherwise = defaults_.find(name); otherwise != defaults_.end()) return otherwise->second;
  const Option& option = *find_option(*program_, name);
  if (option.otherwise.value.empty()) return std::nullopt;
  return parse_value(option, option.otherwise.value);
}

std::vector<Rule> OptionValues::broken_rules() const {
  std::vector<Rule> broken;
  for (const OptionGroup& group : program_->groups)
    for (Rule& rule : group.rules ? group.rules(*this) : std::vector<Rule>())
      if (rule.is_broken) broken.push_back(std::move(rule));
  return broken;
}

std::vector<Rule> OptionValues::store_and_check() const {
  for (const Option* option : rows_of(*program_)) {
    const std::optional<OptionValue> value = option->store ? find(option->name) : std::nullopt;
    if (value) option->store(*value);
  }
  return broken_rules();
}

void OptionValues::refuse(const std::vector<Rule>& broken) {
  std::string text;
  for (const Rule& rule : broken) text += (text.empty() ? "" : "\n  ") + rule.text;
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

/// Shortens a value for a message. A hash keeps long values apart.
std::string in_short(const std::string& text) {
  std::string shown = echo(text);
  if (shown == text) return shown;
  Fnv1a hash;
  hash.add(text);
  return shown + " (hash " + std::to_string(hash.value()) + ")";
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

/// Returns whether a configuration file could give the value. Some defaults mean that there is none, and a file has no
/// empty values.
bool is_writable(const Option& option, const OptionValue& value) {
  try {
    return !text_of(value).empty() && parse_value(option, written(option, value)) == value;
  } catch (const UsageError&) {
    return false;
  }
}

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

std::vector<Term> OptionValues::of_all_ranks() const {
  std::vector<Term> values;
  for (const Option* option : rows_of(*program_)) {
    if (option->scope == Scope::each_rank) continue;
    const std::optional<OptionValue> value = find(option->name);
    values.push_back({"--" + option->name, value ? in_short(written(*option, *value)) : "(nothing)"});
  }
  return values;
}

std::string OptionValues::as_configuration(const std::vector<std::string_view>& except) const {
  OptionValues all = *this;
  for (const Option* option : rows_of(*program_)) {
    const std::optional<OptionValue> value = find(option->name);
    const bool is_wanted = std::ranges::find(except, option->name) == except.end();
    if (value && is_wanted && is_writable(*option, *value)) {
      all.give(option->name, *value);
    } else {
      all.remove(option->name);
    }
  }
  for (bool is_settled = false; !is_settled;) {
    is_settled = true;
    for (const Rule& rule : all.broken_rules()) {
      if (has(rule.option) || !all.remove(rule.option)) continue;
      is_settled = false;
      break;
    }
  }
  std::string text;
  for (const Option* option : rows_of(*program_)) {
    const auto value = all.given_.find(option->name);
    if (value == all.given_.end()) continue;
    const std::string words = written(*option, value->second);
    const bool fits = words.find('\n') == std::string::npos;
    text += fits ? option->name + " = " + quoted_if_needed(words) + '\n'
                 : "# " + option->name + " is left out, because its value has a line break\n";
  }
  return text;
}

}  // namespace lockstep::cli
