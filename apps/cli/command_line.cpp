// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command_line.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <sstream>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "mpi/print.hpp"
#include "platform/ranks/time_limit.hpp"

namespace lockstep::cli {
namespace {

namespace po = boost::program_options;

/// The report of a wrong file or command line ends after this many mistakes.
constexpr int most_mistakes = 20;

/// Reads options in order, from one command line or one configuration file. Names are spelled as the user typed them.
class Reader {
 public:
  Reader(const Program& program, OptionValues& values) : program_(program), values_(values) {}

  void command_line(int argc, const char* const* argv);
  /// @param limit  seconds after which the file counts as hung, and the process ends
  void configuration_file(const std::string& path, double limit);
  void configuration(std::string text, const std::string& path);

 private:
  /// Finds what a name means: `alias` is our option, or else there is an answer, or neither.
  ForeignOption lookup(const std::string& name) const;
  [[noreturn]] void refuse_unknown(const std::string& name, const std::string& place) const;
  /// @return whether the option is taken; not if it is needless
  bool option(const std::string& known, const std::optional<std::string>& value, const std::string& place);
  /// Describes the rows to Boost, which splits the command line by them.
  po::options_description described() const;
  /// Gives the first word the spelling that Boost knows, which calls this before it splits the word.
  std::vector<po::option> respell(std::vector<std::string>& words);
  void line(std::string text, const std::string& place);
  /// Keeps the mistake that `read` throws, for `report_mistakes`. @return whether there was none
  template <typename Read>
  bool keep_mistake(const Read& read) {
    try {
      read();
      return true;
    } catch (const UsageError& mistake) {
      if (++number_of_mistakes_ <= most_mistakes)
        mistakes_ += (mistakes_.empty() ? "" : "\n  ") + std::string(mistake.what());
      if (number_of_mistakes_ == most_mistakes) mistakes_ += "\n  and perhaps more";
      return false;
    }
  }
  /// @throws UsageError with a line for each mistake
  void report_mistakes() const {
    if (!mistakes_.empty()) throw UsageError(mistakes_);
  }

  const Program& program_;
  OptionValues& values_;
  std::map<std::string, std::string> typed_;  ///< what was typed for an option that `respell` has given another name
  std::string mistakes_;
  int number_of_mistakes_ = 0;
};

/// Returns the name with '-' in place of '_'.
std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

ForeignOption Reader::lookup(const std::string& name) const {
  const std::string key = name.substr(name.starts_with("--") ? 2 : 0);
  const std::string last = key.substr(key.rfind('.') + 1);  // LearningRate.base_lr is known as base_lr
  for (const std::string& one : {key, with_dashes(key), last, with_dashes(last)}) {
    if (const Option* row = find_option(program_, one)) return {row->name, row->name, {}};
    for (const ForeignOption& other : program_.foreign) {
      if (other.spelling == one) return other;
    }
  }
  return {};
}

void Reader::refuse_unknown(const std::string& name, const std::string& place) const {
  std::vector<std::string_view> names;
  for (const Option* known : rows_of(program_)) names.push_back(known->name);
  const std::string dashes = name.starts_with("--") ? "--" : name.starts_with('-') ? "-" : "";
  const std::string meant = did_you_mean(name.substr(dashes.size()), names, dashes);
  throw UsageError("there is no option '" + echo(name) + "'" + place + (meant.empty() ? ";" : meant) +
                   " --help lists all");
}

/// Returns what an option means without a value; empty if it needs one.
std::string implied_value(const Domain& domain) {
  const auto* word = std::get_if<Word>(&domain);
  const auto* text = std::get_if<Text>(&domain);
  if (std::holds_alternative<Switch>(domain)) return "yes";
  return word != nullptr ? word->implied : text != nullptr ? text->implied : "";
}

bool Reader::option(const std::string& known, const std::optional<std::string>& value, const std::string& place) {
  const auto typed = typed_.find(known);
  const std::string& name = typed == typed_.end() ? known : typed->second;
  const ForeignOption meant = lookup(name);
  if (meant.is_needless) {
    values_.note({echo(name) + place + " is not needed: " + std::string(meant.answer)});
    return false;
  }
  if (meant.alias.empty()) {
    if (meant.answer.empty()) refuse_unknown(name, place);
    throw UsageError(echo(name) + place + ": " + std::string(meant.answer));
  }
  const Option& row = *find_option(program_, meant.alias);
  if (meant.alias != meant.spelling)
    values_.note(
        {echo(name) + place + " is --" + row.name + (meant.answer.empty() ? "" : ": ") + std::string(meant.answer),
         meant.answer.empty()});
  const std::string implied = implied_value(row.domain);
  if (!value && implied.empty()) {
    throw UsageError("--" + row.name + " needs a value: " + texts_of(row.domain).requirement + "; --help explains it");
  }
  if (!values_.give(row.name, parse_value(row, value.value_or(implied), place))) {
    throw UsageError("'--" + row.name + "' is given more than once" + place + "; leave one of them");
  }
  if (row.name != "help") values_.type(row.name, value);
  return true;
}

po::options_description Reader::described() const {
  po::options_description rows;
  // To Boost any value may be missing, because it takes the next option for the value of one that needs it.
  for (const Option* row : rows_of(program_))
    rows.add_options()(row->name.c_str(), po::value<std::string>()->implicit_value(""));
  rows.add_options()("opts,opt", po::value<std::vector<std::string>>()->multitoken()->zero_tokens());
  return rows;
}

/// Joins the words that follow the option in front and its first value, up to the next option.
void join_list(std::vector<std::string>& words) {
  const std::size_t value = words.front().find('=') == std::string::npos ? 1 : 0;
  if (words.size() > value && value == 1 && words[value].starts_with('-')) return;
  while (words.size() > value + 1 && !words[value + 1].starts_with('-')) {
    words[value] += ',' + words[value + 1];
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(value) + 1);
  }
}

std::vector<po::option> Reader::respell(std::vector<std::string>& words) {
  std::string& word = words.front();
  if (word == "-c") word = "--config";
  if (word == "-h") word = "--help";
  if (word == "-o") word = "--opts";
  const std::size_t end = std::min(word.find('='), word.size());
  const std::string_view ours = word.starts_with('-') ? lookup(word.substr(0, end)).alias : "";
  if (!ours.empty()) {
    const std::string known = "--" + std::string(ours);
    typed_[known] = word.substr(0, end);
    word.replace(0, end, known);
    const auto* text = std::get_if<Text>(&find_option(program_, ours)->domain);
    if (text != nullptr && text->is_list) join_list(words);
  }
  // To Boost only what begins with "--" is an option. A "-" before a digit is a sign.
  if (word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0) word.insert(0, "--");
  if (word.starts_with("--") && word.find('=') == word.size() - 1) {
    word.pop_back();
    words.insert(words.begin() + 1, "");  // Boost takes no empty value behind a '='
  }
  return {};
}

void Reader::command_line(int argc, const char* const* argv) {
  namespace style = po::command_line_style;
  const po::options_description rows = described();
  po::command_line_parser parser(argc, argv);
  parser.options(rows).style(style::allow_long | style::long_allow_adjacent | style::long_allow_next);
  parser.allow_unregistered().extra_style_parser([this](auto& words) { return respell(words); });
  bool is_taken = true;
  for (const po::option& given : parser.run().options) {
    const std::optional value = given.value.empty() ? std::nullopt : std::optional(given.value.front());
    if (given.string_key.empty() && !is_taken) continue;  // the value of an option that is wrong or needless
    is_taken = false;
    keep_mistake([&] {
      if (given.string_key == "opts") {  // -o name=value name=value …
        if (!value) throw UsageError("-o needs name=value, and more of them");
        for (const std::string& one : given.value) keep_mistake([&] { line(one, ""); });
        is_taken = true;
      } else if (given.string_key.empty()) {
        throw UsageError("'" + echo(*value) + "' belongs to no option; options start with '--'");
      } else {
        is_taken = option((given.string_key.starts_with('-') ? "" : "--") + given.string_key, value, "");
      }
    });
  }
  report_mistakes();
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t begin = text.find_first_not_of(blank);
  return begin == std::string_view::npos ? std::string()
                                         : std::string(text.substr(begin, text.find_last_not_of(blank) - begin + 1));
}

/// Removes a comment, which begins with a '#' at the front or after a blank, outside quotation marks.
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
  if (!is_quoted) return value;
  const bool is_single = value[0] == '\'';
  value = value.substr(1, value.size() - 2);
  for (std::size_t at = 0; is_single && (at = value.find("''", at)) != std::string::npos; ++at) value.erase(at, 1);
  return value;
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
  if (!is_name || value.empty() || value.find('\0') != std::string::npos) {
    throw UsageError("invalid line '" + echo(text) + "'" + place + "; a line must be 'name = value' or 'name: value'");
  }
  if (name == "config") throw UsageError("'config'" + place + ": a configuration file cannot name another one");
  keep_mistake([&] { option(name, unquoted(value), place); });
}

/// Refuses a file whose options are nested, such as those of PaddlePaddle, of which every line would be wrong.
void refuse_nesting(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  std::string heading;  // the last line, if it may begin a block
  std::size_t indentation = 0;
  int number = 0;
  for (std::string one; std::getline(lines, one);) {
    ++number;
    const std::string line = trimmed(without_comment(one));
    if (line.empty()) continue;
    const std::size_t blanks = one.find_first_not_of(" \t");
    const bool is_section =
        line.front() == '[' && line.back() == ']' && line.find_first_of(",{\"") == std::string::npos;
    const bool is_inner = !heading.empty() && (blanks > indentation || line.starts_with("- "));
    if (is_section || is_inner) {
      throw UsageError("--config " + echo(path, 400) + ": options cannot be nested, as '" +
                       echo(is_inner ? heading : line) + "' before line " +
                       std::to_string(number + (is_inner ? 0 : 1)) +
                       " nests them; write each on a line of its own, as 'name: value', without sections");
    }
    heading = line.find_last_of(":[{") == line.size() - 1 ? line : "";
    indentation = blanks;
  }
}

void Reader::configuration_file(const std::string& path, double limit) {
  std::string text;
  try {
    // There is no World yet, whose watchdog would notice a hang.
    const TimeLimit end(std::chrono::duration<double>(limit), [&, name = program_.name] {
      print_line(name, "--config " + echo(path, 400) + ": the file has not been read within " + text_of(limit) +
                           " s; does its file system answer, or, if it is a pipe, does anybody write to it?");
      std::_Exit(exit_timeout);
    });
    text = read_text(path, most_configuration_bytes);
  } catch (const Error& error) {
    throw UsageError("--config " + echo(path) + ": the file cannot be read: " + error.message());
  }
  configuration(std::move(text), path);
}

void Reader::configuration(std::string text, const std::string& path) {
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // removes a byte order mark
  refuse_nesting(text, path);
  std::istringstream lines(text);
  int number = 0;
  for (std::string one; std::getline(lines, one);) {
    const std::string place = " in " + echo(path, 400) + ", line " + std::to_string(++number);
    if (!keep_mistake([&] { line(one, place); })) break;  // It may be a file of another kind.
    if (number_of_mistakes_ >= most_mistakes) break;
  }
  report_mistakes();
}

}  // namespace

OptionValues read_command_line(int argc, const char* const* argv, const Program& program) {
  OptionValues values(program);
  Reader(program, values).command_line(argc, argv);
  if (!values.has("config")) return values;
  OptionValues in_file(program);
  const bool has_limit = find_option(program, "comm-timeout") != nullptr;
  const double limit = has_limit ? values.get<double>("comm-timeout") : static_cast<double>(usual_deadline.count());
  Reader(program, in_file).configuration_file(values.get<std::string>("config"), limit);
  values.add(in_file);
  return values;
}

OptionValues read_configuration(const std::string& text, const std::string& path, const Program& program) {
  OptionValues values(program);
  Reader(program, values).configuration(text, path);
  return values;
}

}  // namespace lockstep::cli
