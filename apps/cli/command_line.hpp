// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/mpi/world.hpp"
#include "platform/ranks/agreement.hpp"

/// A program's options are rows of a table. The command line and the configuration file are checked against it and
/// stored by it, ranks are compared by it, and --help, the man page, the documentation and shell completion are
/// generated from it (apps/cli/help.hpp).
namespace lockstep::cli {

/// A yes-or-no option; no value means yes.
struct Switch {};
/// Any text that is not empty, unless the row allows that.
struct Text {
  std::string placeholder;   ///< its name in the help; FILE and DIR are completed as paths
  std::string implied = {};  ///< what the option means without a value
  bool may_be_empty = false;
  bool is_list = false;  ///< whether words that follow on the command line belong to it, as if commas were between
};
/// An integer.
struct Whole {
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::string zero = {};  ///< a word that means 0, if there is one
};
/// A real number.
struct Real {
  double min = 0;
  double max = 0;
  std::string zero = {};   ///< a word that means 0, if there is one
  bool above_min = false;  ///< whether the bound itself is excluded
  bool below_max = false;
};
/// One word from a list, or several, separated by commas.
struct Word {
  std::vector<std::string_view> words;
  bool several = false;
  std::string implied = {};            ///< what the option means without a value
  std::optional<Real> or_number = {};  ///< numbers that may stand instead of a word; the value is their text
};
/// A time, such as "90s", "10m" or "23h50m"; the value is its text.
struct Duration {
  std::string zero = {};  ///< a word that means 0, if there is one
};
using Domain = std::variant<Switch, Text, Word, Whole, Real, Duration>;

/// The checked value of an option.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;
class OptionValues;

/// The default of an option.
struct Default {
  Default() = default;
  Default(std::string user_value) : value(std::move(user_value)) {}  // NOLINT(google-explicit-constructor)
  Default(const char* user_value) : value(user_value) {}             // NOLINT(google-explicit-constructor)

  std::string value;  ///< as the user would write it; empty: there is none
  std::string text;   ///< describes a default that depends on something else
};
inline const Default no_default;
/// Returns a default that depends on something else.
inline Default described(std::string text) {
  Default otherwise;
  otherwise.text = std::move(text);
  return otherwise;
}

/// Whether all ranks must have the same value of an option.
enum class Scope { all_ranks, each_rank };

/// A row of the table.
struct Option {
  std::string name;  ///< without dashes
  Domain domain;
  Default otherwise;
  std::string help;  ///< a noun phrase or an imperative
  /// Writes the value to where the program reads it; not called if there is neither a value nor a default.
  std::function<void(const OptionValue&)> store;
  Scope scope = Scope::all_ranks;
  std::string advice;  ///< ends the message about an invalid value
};
inline Option row(std::string name, Domain domain, Default otherwise, std::string help,
                  std::function<void(const OptionValue&)> store = {}, Scope scope = Scope::all_ranks,
                  std::string advice = {}) {
  return {std::move(name), std::move(domain), std::move(otherwise), std::move(help), std::move(store),
          scope,           std::move(advice)};
}

/// What does not go together: the option is refused if the rule is broken.
struct Rule {
  std::string option;  ///< without dashes
  bool is_broken = false;
  std::string text;  ///< what is wrong with the option's value beside other options, and the remedy
};

/// Returns a `store` that assigns the value to `target`, which must outlive the row.
template <typename Target>
auto into(Target& target) {
  return [&target](const OptionValue& value) {
    if constexpr (std::is_same_v<Target, bool> || std::is_same_v<Target, double> ||
                  std::is_same_v<Target, std::string>) {
      target = std::get<Target>(value);
    } else {
      target = static_cast<Target>(std::get<std::int64_t>(value));
    }
  };
}
/// Returns a `store` that assigns to `target` what `convert` makes of the value.
template <typename Target, typename Result, typename Value>
auto into(Target& target, Result (*convert)(Value)) {
  using Held = std::remove_cvref_t<Value>;
  using Stored = std::conditional_t<std::is_same_v<Held, std::string_view>, std::string, Held>;
  return [&target, convert](const OptionValue& value) { target = convert(std::get<Stored>(value)); };
}

/// Returns the domain of the words of a list.
template <typename List>
Word one_of(const List& words, bool several = false) {
  return {std::vector<std::string_view>(std::begin(words), std::end(words)), several};
}

/// Returns the value of a word, for `into`. @pre the word is one of `words`, which are in the order of the values
template <typename Enum, const auto& words>
Enum value_named(const std::string& word) {
  return static_cast<Enum>(std::ranges::find(words, word) - words.begin());
}

/// Options under one heading.
struct OptionGroup {
  std::string title;
  std::vector<Option> options;
  /// Returns the rules about these options, for values that have been stored.
  /// @param given  which of them count as given
  std::function<std::vector<Rule>(const OptionValues& given)> rules = {};
};

/// Another program's spelling of an option, and the answer to it.
struct ForeignOption {
  std::string_view spelling;  ///< with its dashes if it has only one spelling; '-' stands for '_', and '_' for itself
  std::string_view alias;     ///< this program's option of the same meaning; empty if there is none
  std::string_view answer;    ///< what to tell the user; beside an alias, how it differs from what was typed
  bool is_needless = false;   ///< accepted without an effect; the answer says why
};

/// The description of a program's command line.
struct Program {
  std::string name;
  std::string synopsis;  ///< such as "[mpirun -np RANKS] train [options]"
  std::string about;     ///< a sentence that says what it does, and more paragraphs
  std::vector<OptionGroup> groups;
  std::string notes = {};                       ///< paragraphs after the options
  std::span<const ForeignOption> foreign = {};  ///< in any order
};

/// What a user should know about an option that was understood in another way than it was typed.
struct OptionNote {
  std::string text;
  bool is_plain = false;    ///< only another name of the same
  bool is_in_file = false;  ///< in a configuration file
};

/// The values of a program's options: the given value of each, or its default.
class OptionValues {
 public:
  /// @param program  outlives this
  explicit OptionValues(const Program& program) : program_(&program) {}

  /// Returns whether the user has given the option.
  [[nodiscard]] bool has(std::string_view name) const { return given_.find(name) != given_.end(); }
  /// Returns whether the user has given the option outside a configuration file.
  [[nodiscard]] bool is_on_command_line(std::string_view name) const {
    return has(name) && from_file_.find(name) == from_file_.end();
  }
  /// @tparam T  bool, std::int64_t, double or std::string, according to the row
  /// @return the default if it is not given; T() if there is none
  template <typename T>
  [[nodiscard]] T get(std::string_view name) const {
    const std::optional<OptionValue> value = find(name);
    return value ? std::get<T>(*value) : T();
  }
  /// Sets the default of an option whose row only describes it, because it depends on other options.
  void default_to(const std::string& name, OptionValue value) { defaults_.insert_or_assign(name, std::move(value)); }
  [[nodiscard]] const Program& program() const { return *program_; }
  /// Stores all values by their rows. @return the rules that are broken then
  [[nodiscard]] std::vector<Rule> store_and_check() const;
  /// @throws UsageError with a line for each rule, if there are any
  static void refuse(const std::vector<Rule>& broken);
  /// Stores all values by their rows. @throws UsageError with a line for each broken rule
  void store() const { refuse(store_and_check()); }
  /// Returns every option that must be the same on all ranks, as "--lr" and its value with all digits, options without
  /// a value included. A text that is long or not printable is shown by its beginning and a hash.
  [[nodiscard]] std::vector<Term> of_all_ranks() const;

  /// Returns a configuration file with which `--config` gives the same values, also where defaults change. Options that
  /// would be refused beside the others, because they have no meaning there, are left out.
  /// @param except  options that are left out, too
  [[nodiscard]] std::string as_configuration(const std::vector<std::string_view>& except) const;

  /// Sets a given value. @return false if there is one already
  bool give(const std::string& name, OptionValue value) { return given_.emplace(name, std::move(value)).second; }
  /// Removes a given value. @return whether there was one
  bool remove(const std::string& name) { return given_.erase(name) != 0; }
  /// Adds the values that only a configuration file has, and its notes.
  void add(const OptionValues& file);

  /// Adds an option as it was typed, under this program's name of it. @param value  nothing if there was none
  void type(const std::string& name, const std::optional<std::string>& value);
  void note(OptionNote note) { notes_.push_back(std::move(note)); }
  [[nodiscard]] const std::vector<OptionNote>& notes() const { return notes_; }
  /// Returns what lockstep-launch asks for, as fields that end with a zero byte: a mark, "word " and each word of the
  /// command line under this program's names, "value " and NAME=VALUE for each given option, "note " and each note
  /// about the command line.
  [[nodiscard]] std::string for_launcher() const;

 private:
  [[nodiscard]] std::optional<OptionValue> find(std::string_view name) const;
  [[nodiscard]] std::vector<Rule> broken_rules() const;

  const Program* program_;
  std::map<std::string, OptionValue, std::less<>> given_;
  std::map<std::string, OptionValue, std::less<>> defaults_;
  std::set<std::string, std::less<>> from_file_;
  std::vector<std::string> words_;
  std::vector<OptionNote> notes_;
};

/// Returns all rows of a program, in their order.
std::vector<const Option*> rows_of(const Program& program);
/// Returns the row of an option, or null.
const Option* find_option(const Program& program, std::string_view name);

/// Formats a value so that it reads back as the same value.
std::string text_of(const OptionValue& value);
/// Returns the shortest text that reads back as the same number, such as "0.1" or "1e+30".
std::string text_of(double value);

/// How texts for users describe the values of a domain.
struct DomainTexts {
  std::string requirement;  ///< what a value must be, such as "a whole number from 1 to 1024, or auto"
  std::string placeholder;  ///< of the value in the help: "N", "FILE", "cpu|cuda"; empty if no value is needed
  std::string values;       ///< their range, or the words that the placeholder does not list
};
DomainTexts texts_of(const Domain& domain);

/// Reads the command line and, if it has `--config FILE` (or -c FILE), that file. The file has lines `name = value` or
/// `name: value`, with `#` before a comment; the command line overrides the file. A value may be in quotation marks;
/// within single ones, '' is a single quotation mark. Options are written in full, with '_' or '-'; `-o name=value …`
/// gives some as in a configuration file. A word that belongs to no option is rejected, and
/// so is a file with nested options.
/// @throws UsageError with a line for each mistake, which names option, value, range and place
OptionValues read_command_line(int argc, const char* const* argv, const Program& program);

/// The longest configuration file.
inline constexpr std::size_t most_configuration_bytes = std::size_t{1} << 20;

/// Reads the text of a configuration file. @param path  its path, for messages
/// @throws UsageError as read_command_line
OptionValues read_configuration(const std::string& text, const std::string& path, const Program& program);

/// Parses the value of an option. @throws UsageError "--option value: it must be …"
OptionValue parse_value(const Option& option, const std::string& text, std::string_view place = "");

/// Returns the seconds of a time such as "90s", "10m", "23h50m" or "1d12h"; nothing if it has another form, or is 0.
std::optional<double> seconds_of(std::string_view text);

/// Splits a comma-separated list into words.
std::vector<std::string> words_of(const std::string& list);

/// Joins words as "a|b|c".
std::string joined(std::span<const std::string_view> words, std::string_view between = "|");

}  // namespace lockstep::cli
