// SPDX-License-Identifier: Apache-2.0
#include "apps/common/command_line.hpp"

#include <algorithm>
#include <sstream>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

/// A wrong file may have any number of mistakes; no more than these are reported.
constexpr int most_mistakes = 20;

/// Takes options as they come, for one command line or one configuration file.
class Reader {
 public:
  Reader(const Program& program, OptionValues& values) : program_(program), values_(values) {}

  void command_line(std::span<const char* const> words);
  void configuration_file(const std::string& path);

 private:
  struct Spelled {
    std::string dashes;
    std::string name;  ///< as the user wrote it
    std::optional<std::string> value;
  };

  static Spelled spelled(std::string_view word);
  /// An option's row. @throws UsageError with what is known about an option that there is not
  const Option& row(const Spelled& option, const std::string& place) const;
  const ForeignOption* foreign(const std::string& name) const;
  [[noreturn]] void refuse_unknown(const Spelled& option, const std::string& place) const;
  /// @param next  the word behind it, or null
  /// @return whether the next word is its value
  bool option(Spelled option, const char* next, const std::string& place);
  void line(std::string text, const std::string& place);
  void take_words(std::span<const char* const> words);
  void take_lines(const std::string& text, const std::string& path);
  /// Runs `take`, which may call `keep_mistake`. @throws UsageError with a line for each mistake
  template <typename Take>
  void report_together(Take take);
  /// @return whether there was no mistake
  template <typename Take>
  bool keep_mistake(Take take);
  void add(const UsageError& mistake);

  const Program& program_;
  OptionValues& values_;
  std::string mistakes_;
  int number_of_mistakes_ = 0;
};

void Reader::add(const UsageError& mistake) {
  if (++number_of_mistakes_ > most_mistakes) return;
  mistakes_ += (mistakes_.empty() ? "" : "\n  ") + std::string(mistake.what());
  if (number_of_mistakes_ == most_mistakes) mistakes_ += "\n  and perhaps more";
}

template <typename Take>
void Reader::report_together(Take take) {
  try {
    take();
  } catch (const UsageError& mistake) {
    add(mistake);
  }
  if (!mistakes_.empty()) throw UsageError(mistakes_);
}

template <typename Take>
bool Reader::keep_mistake(Take take) {
  try {
    take();
    return true;
  } catch (const UsageError& mistake) {
    add(mistake);
    return false;
  }
}

Reader::Spelled Reader::spelled(std::string_view word) {
  const std::size_t dashes = word.starts_with("--") ? 2 : word.starts_with('-') ? 1 : 0;
  const std::size_t equals = word.find('=');
  Spelled option{std::string(word.substr(0, dashes)), std::string(word.substr(dashes, equals - dashes)), {}};
  if (equals != std::string_view::npos) option.value = word.substr(equals + 1);
  return option;
}

const ForeignOption* Reader::foreign(const std::string& name) const {
  const auto found = std::find_if(program_.foreign.begin(), program_.foreign.end(),
                                  [&](const ForeignOption& option) { return option.spelling == name; });
  return found == program_.foreign.end() ? nullptr : &*found;
}

void Reader::refuse_unknown(const Spelled& option, const std::string& place) const {
  std::vector<std::string_view> names;
  for (const OptionGroup& group : program_.groups) {
    for (const Option& known : group.options) names.push_back(known.name);
  }
  const std::string meant = did_you_mean(option.name, names, option.dashes);
  throw UsageError("there is no option '" + option.dashes + echo(option.name) + "'" + place +
                   (meant.empty() ? ";" : meant) + " --help lists all");
}

const Option& Reader::row(const Spelled& option, const std::string& place) const {
  std::string name = option.name;
  std::replace(name.begin(), name.end(), '_', '-');
  const std::string typed = option.dashes == "-" ? "-" + name : name;
  if (const Option* known = option.dashes == "-" ? nullptr : find_option(program_, name)) return *known;
  const ForeignOption* other = foreign(typed);
  const std::size_t dot = name.rfind('.');  // of a nested key its last part: LearningRate.base_lr
  if (other == nullptr && dot != std::string::npos) {
    const std::string last = name.substr(dot + 1);
    if (const Option* known = find_option(program_, last)) return *known;
    other = foreign(last);
  }
  if (other == nullptr) refuse_unknown(option, place);
  if (!other->alias.empty()) return *find_option(program_, other->alias);
  throw UsageError(option.dashes + echo(option.name) + place + ": " + std::string(other->answer));
}

bool Reader::option(Spelled option, const char* next, const std::string& place) {
  const Option& known = row(option, place);
  const auto* word = std::get_if<Word>(&known.domain);
  bool takes_next = false;
  if (!option.value && word != nullptr && !word->implied.empty()) {
    option.value = word->implied;
  } else if (!option.value && std::holds_alternative<Switch>(known.domain)) {
    takes_next = next != nullptr && *next != '-';
    option.value = takes_next ? next : "yes";
  } else if (!option.value) {
    takes_next = next != nullptr && std::string_view(next).substr(0, 2) != "--";
    if (!takes_next) {
      throw UsageError("--" + known.name + " needs a value: " + range_text(known.domain) + "; --help explains it");
    }
    option.value = next;
  }
  if (!values_.give(known.name, parse_value(known, *option.value, place))) {
    throw UsageError("'--" + known.name + "' is given more than once" + place + "; leave one of them");
  }
  return takes_next;
}

void Reader::command_line(std::span<const char* const> words) {
  report_together([&] { take_words(words); });
}

void Reader::take_words(std::span<const char* const> words) {
  const auto is_value = [&](std::size_t i) { return i < words.size() && *words[i] != '-'; };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const char* next = i + 1 < words.size() ? words[i + 1] : nullptr;
    const bool is_right = keep_mistake([&] {
      if (word == "-o" || word == "--opt" || word == "--opts") {  // -o name=value name=value …
        if (next == nullptr || !spelled(next).value) throw UsageError("-o needs name=value, and more of them");
        for (; is_value(i + 1) && spelled(words[i + 1]).value; ++i) {
          keep_mistake([&] { option(spelled(words[i + 1]), nullptr, ""); });
        }
      } else if (word.size() > 1 && word.starts_with('-')) {
        Spelled given = spelled(word);
        if (word == "-c" || word == "-h") given = {"--", word == "-c" ? "config" : "help", {}};
        i += option(given, next, "") ? 1 : 0;
      } else {
        throw UsageError("'" + echo(word) + "' belongs to no option; options start with '--'");
      }
    });
    if (is_right) continue;
    while (is_value(i + 1)) ++i;  // the values of what is wrong
  }
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t begin = text.find_first_not_of(blank);
  return begin == std::string_view::npos ? std::string()
                                         : std::string(text.substr(begin, text.find_last_not_of(blank) - begin + 1));
}

/// Without a comment, which begins with a '#' at the front or behind a blank and outside quotation marks.
std::string_view without_comment(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == quote) quote = 0;
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return line.substr(0, i);
    }
  }
  return line;
}

std::string unquoted(std::string value) {
  const bool is_quoted = value.size() > 1 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0];
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

void Reader::line(std::string text, const std::string& place) {
  text = trimmed(without_comment(text));
  if (text.empty()) return;
  const std::size_t sign = text.find_first_of("=:");
  const std::string name = trimmed(std::string_view(text).substr(0, sign));
  const std::string value = sign == std::string::npos ? "" : trimmed(std::string_view(text).substr(sign + 1));
  const bool is_name = !name.empty() && name.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-.") == std::string::npos;
  if (!is_name || value.empty()) {
    throw UsageError("invalid line '" + echo(text) + "'" + place + "; a line must be 'name = value' or 'name: value'");
  }
  if (name == "config") throw UsageError("'config'" + place + ": a configuration file cannot name another one");
  keep_mistake([&] { option({"", name, unquoted(value)}, nullptr, place); });
}

void Reader::configuration_file(const std::string& path) {
  std::string text;
  try {
    text = read_text(path, std::size_t{1} << 20);
  } catch (const Error& error) {
    throw UsageError("--config " + echo(path) + ": the file cannot be read: " + error.message());
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // a byte order mark
  report_together([&] { take_lines(text, path); });
}

void Reader::take_lines(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  int number = 0;
  for (std::string one; std::getline(lines, one);) {
    line(one, " in " + echo(path, 400) + ", line " + std::to_string(++number));
  }
}

}  // namespace

OptionValues read_command_line(int argc, const char* const* argv, const Program& program) {
  OptionValues values(program);
  if (argc > 1) Reader(program, values).command_line({argv + 1, static_cast<std::size_t>(argc - 1)});
  if (!values.has("config")) return values;
  OptionValues in_file(program);
  Reader(program, in_file).configuration_file(values.get<std::string>("config"));
  values.add(in_file);
  return values;
}

}  // namespace lockstep
