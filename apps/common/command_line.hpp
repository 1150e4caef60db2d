// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "apps/common/run_app.hpp"

/// A program's options are rows of a table; the command line and the configuration file are checked by it, and --help,
/// the man page, the documentation and shell completion are written from it (apps/common/help.hpp).
namespace lockstep {

/// yes or no, which can be left out for yes.
struct Switch {};
/// Any text but the empty one.
struct Text {
  std::string placeholder;  ///< how help calls it; FILE and DIR are completed as paths
};
/// One word of a list, or several with commas between.
struct Word {
  std::vector<std::string_view> words;
  bool several = false;
  std::string implied = {};  ///< what the option means without a value, which then needs a '=': --help=man
};
/// A whole number.
struct Whole {
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::string zero = {};  ///< a word that means 0, where there is one
};
/// A real number.
struct Real {
  double min = 0;
  double max = 0;
  std::string zero = {};   ///< a word that means 0, where there is one
  bool above_min = false;  ///< the bounds themselves are excluded
  bool below_max = false;
};
using Domain = std::variant<Switch, Text, Word, Whole, Real>;

struct Option {
  std::string name;  ///< without dashes
  Domain domain;
  std::string help;               ///< a noun phrase or an imperative
  std::string otherwise = {};     ///< the default as a value; empty: none
  std::string default_text = {};  ///< what is said of a default that follows from something else
  bool of_each_rank = false;      ///< ranks may have different values
  std::string advice = {};        ///< ends the message about a value that cannot be
};

/// Options under one heading.
struct OptionGroup {
  std::string title;
  std::vector<Option> options;
};

/// How another program spells an option, and what to do about it.
struct ForeignOption {
  std::string_view spelling;  ///< with dashes where it has one only; '-' for '_'
  std::string_view alias;     ///< this program's option that means the same; empty where there is none
  std::string_view answer;    ///< what to tell the user instead
};

/// What is known about a program's command line.
struct Program {
  std::string name;
  std::string synopsis;  ///< "[mpirun -np RANKS] train [options]"
  std::string about;     ///< a sentence that says what it does, and more paragraphs
  std::vector<OptionGroup> groups;
  std::string notes = {};                       ///< paragraphs behind the options
  std::span<const ForeignOption> foreign = {};  ///< sorted by spelling or not
};

/// What an option was given as, checked.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

/// What holds for each option of a program: what it was given as, or else its default.
class OptionValues {
 public:
  /// @param program  outlives this
  explicit OptionValues(const Program& program) : program_(&program) {}

  /// Whether the user has given it.
  [[nodiscard]] bool has(std::string_view name) const { return given_.find(name) != given_.end(); }
  /// @tparam T  bool, int, std::int64_t, double or std::string, as the row has it
  /// @return the default where it is not given; T() where there is none
  template <typename T>
  [[nodiscard]] T get(std::string_view name) const;
  /// Sets the default of an option whose row only describes it, since it follows from others.
  void default_to(const std::string& name, OptionValue value) { defaults_.insert_or_assign(name, std::move(value)); }
  /// Every option that all ranks must have alike, as "--lr" and its value with all digits, those without a value too.
  /// A text that is long or not printable is shown by its beginning and a hash.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> of_all_ranks() const;

  /// @return false if it is there already
  bool give(const std::string& name, OptionValue value) { return given_.emplace(name, std::move(value)).second; }
  /// Takes over what others were given and this was not.
  void add(const OptionValues& others);

 private:
  [[nodiscard]] std::optional<OptionValue> find(std::string_view name) const;

  const Program* program_;
  std::map<std::string, OptionValue, std::less<>> given_;
  std::map<std::string, OptionValue, std::less<>> defaults_;
};

/// The row of an option, or null.
const Option* find_option(const Program& program, std::string_view name);

/// A value as text that reads back as the same value.
std::string text_of(const OptionValue& value);
/// The shortest text that reads back as the same number: "0.1", "1e+30".
std::string text_of(double value);

/// What a value must be: "a whole number from 1 to 1024, or auto".
std::string range_text(const Domain& domain);

/// Reads the command line, and where `--config FILE` (or -c FILE) is among the options that file too: lines
/// `name = value` or `name: value`, with `#` before a comment; the command line goes before the file. Options are
/// written out in full, with '_' or '-'; `-o name=value …` gives some as a configuration file would. A word that
/// belongs to no option is refused.
/// @throws UsageError with a line for each mistake, which names option, value, range and place
OptionValues read_command_line(int argc, const char* const* argv, const Program& program);

/// The value that the text stands for. @throws UsageError "--option value: it must be …"
OptionValue parse_value(const Option& option, const std::string& text, std::string_view place = "");

/// The words of a comma-separated list.
std::vector<std::string> words_of(const std::string& list);

/// "a|b|c"
std::string joined(std::span<const std::string_view> words, std::string_view between = "|");

}  // namespace lockstep
