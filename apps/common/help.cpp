// SPDX-License-Identifier: Apache-2.0
#include "apps/common/help.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "apps/common/version.hpp"
#include "lockstep/base/version.hpp"

namespace lockstep {
namespace {

constexpr std::string_view exit_codes =
    "Exit codes: 0 success; 1 an error, and one line says which, on which rank and host; 2 a wrong command line or "
    "configuration file; 4 a rank did not answer in time, and standard error says what all ranks were doing.";

/// Returns the placeholder of the value: "N", "FILE", "cpu|cuda"; empty if no value is needed.
std::string placeholder(const Option& option) {
  if (std::holds_alternative<Switch>(option.domain)) return option.otherwise == "no" ? "" : "yes|no";
  if (const auto* text = std::get_if<Text>(&option.domain))
    return text->implied.empty() ? text->placeholder : '[' + text->placeholder + ']';
  if (std::holds_alternative<Whole>(option.domain)) return "N";
  if (std::holds_alternative<Real>(option.domain)) return "X";
  if (std::holds_alternative<Duration>(option.domain)) return "TIME";
  const auto& word = std::get<Word>(option.domain);
  if (!word.implied.empty()) return "";
  std::string words = joined(word.words);
  if (word.or_number) return words + "|X";
  return word.several ? "NAME,..." : words.size() <= 16 ? words : "NAME";
}

std::string bounds_of(const Real& range) {
  return text_of(range.min) + (range.above_min ? " < X " : " <= X ") + (range.below_max ? "< " : "<= ") +
         text_of(range.max);
}

/// Describes the values further: their range, or the words that the placeholder does not list.
std::string values_text(const Option& option) {
  const auto or_zero = [](const std::string& word) { return word.empty() ? "" : " or " + word; };
  if (const auto* word = std::get_if<Word>(&option.domain)) {
    if (word->or_number) return bounds_of(*word->or_number);
    const std::string words = joined(word->words, ", ");
    return words.empty() || placeholder(option) == joined(word->words) ? "" : words;
  }
  if (const auto* whole = std::get_if<Whole>(&option.domain)) {
    return std::to_string(whole->min) + " to " + std::to_string(whole->max) + or_zero(whole->zero);
  }
  if (const auto* real = std::get_if<Real>(&option.domain)) {
    return bounds_of(*real) + or_zero(real->zero);
  }
  if (std::holds_alternative<Duration>(option.domain)) return "such as 90s, 10m or 23h50m";
  return "";
}

std::string default_of(const Option& option) {
  return option.default_text.empty() ? option.otherwise : option.default_text;
}

/// Returns a text such as "peak learning rate (0 < X <= 1000; default: by model)".
std::string meaning(const Option& option) {
  const std::string values = values_text(option);
  const bool is_plain_switch = std::holds_alternative<Switch>(option.domain) && option.otherwise == "no";
  const std::string what = is_plain_switch ? "" : default_of(option);
  const std::string otherwise = what.empty() ? "" : "default: " + what;
  const std::string both = values + (values.empty() || otherwise.empty() ? "" : "; ") + otherwise;
  return option.help + (both.empty() ? "" : " (" + both + ")");
}

std::string head(const Option& option) {
  const std::string value = placeholder(option);
  return "--" + option.name + (value.empty() ? "" : ' ' + value);
}

/// Counts characters instead of bytes.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

/// Wraps a paragraph into lines of `columns`. All lines but the first are indented by `indent` blanks; `used` columns
/// of the first are occupied already. Line breaks in `text` are kept.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent, std::size_t used) {
  std::string result;
  std::size_t at = used;
  bool is_first = true;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const bool breaks = !is_first && at + 1 + width(word) > columns;
    if (breaks) result += '\n' + std::string(indent, ' ');
    if (!breaks && !is_first && at > indent) result += ' ';
    at = breaks ? indent + width(word) : at + width(word) + (is_first || at == indent ? 0 : 1);
    result += word;
    is_first = false;
    if (end < text.size() && text[end] == '\n') {
      result += '\n' + std::string(end + 1 < text.size() && text[end + 1] == '\n' ? 0 : indent, ' ');
      at = indent;
    }
    begin = end + 1;
  }
  return result + '\n';
}

std::string option_text(const Option& option, std::size_t columns) {
  const std::size_t indent = columns < 90 ? 22 : 26;
  std::string line = "  " + head(option);
  if (width(line) + 2 > indent) {
    line += '\n' + std::string(indent, ' ');
  } else {
    line.append(indent - width(line), ' ');
  }
  return line + wrapped(meaning(option), columns, indent, indent);
}

std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n')
      result += "\n.PP\n";
    else
      result += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string markdown(const std::string& text) {
  std::string result;
  for (const char c : text) result += (c == '|' || c == '<' || c == '*' ? "\\" : "") + std::string(1, c);
  return result;
}

}  // namespace

OptionGroup general_options() {
  static const std::vector<std::string_view> formats = {"text", "man", "markdown", "completion", "launcher"};
  return {"General",
          {{.name = "help",
            .domain = Word{formats, false, "text"},
            .help = "print this text, or with --help=FORMAT the same in another format; launcher prints the options "
                    "that are given, for lockstep-launch",
            .of_each_rank = true},
           {.name = "version",
            .domain = Switch{},
            .help = "print the versions of lockstep and of its libraries",
            .otherwise = "no",
            .of_each_rank = true}}};
}

std::string requested_text(const OptionValues& values, const Program& program) {
  const auto format = values.get<std::string>("help");
  if (format == "text") return help_text(program, output_columns());
  if (format == "man") return help_man(program);
  if (format == "markdown") return help_markdown(program);
  if (format == "completion") return help_completion(program);
  if (format == "launcher") return values.for_launcher();
  return values.get<bool>("version") ? version_text(program.name) : "";
}

std::string help_text(const Program& program, int columns) {
  const auto most = static_cast<std::size_t>(columns);
  std::string text = wrapped("Usage: " + program.synopsis, most, 2, 0) + wrapped(program.about, most, 0, 0);
  for (const OptionGroup& group : program.groups) {
    text += '\n' + group.title + ":\n";
    for (const Option& option : group.options) text += option_text(option, most);
  }
  if (!program.notes.empty()) text += '\n' + wrapped(program.notes, most, 0, 0);
  return text + '\n' + wrapped(std::string(exit_codes), most, 0, 0);
}

std::string help_man(const Program& program) {
  std::string name = program.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string brief = program.about.substr(0, program.about.find_first_of(".:"));
  brief[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(brief[0])));
  std::string page = ".TH " + name + R"( 1 "" "lockstep )" + std::string(version()) + R"(" "User commands")" + '\n';
  page += ".SH NAME\n" + roff(program.name + " - " + brief) + "\n.SH SYNOPSIS\n" + roff(program.synopsis) +
          "\n.SH DESCRIPTION\n" + roff(program.about) + "\n.SH OPTIONS\n";
  for (const OptionGroup& group : program.groups) {
    page += ".SS " + roff(group.title) + '\n';
    for (const Option& option : group.options) {
      page += ".TP\n\\fB" + roff(head(option)) + "\\fR\n" + roff(meaning(option)) + '\n';
    }
  }
  if (!program.notes.empty()) page += ".SH NOTES\n" + roff(program.notes) + '\n';
  return page + ".SH EXIT STATUS\n" + roff(std::string(exit_codes.substr(exit_codes.find(':') + 2))) + '\n';
}

std::string help_markdown(const Program& program) {
  std::string page = "# Options of `" + program.name + "`\n\n<!-- Written by `" + program.name +
                     " --help=markdown`; do not edit. -->\n\nThis page lists the options of `" + program.name +
                     "`.\n\n    " + program.synopsis + "\n\n" + wrapped(markdown(program.about), 120, 0, 0);
  for (const OptionGroup& group : program.groups) {
    page += "\n## " + group.title + "\n\n| Option | Meaning | Values | Default |\n|---|---|---|---|\n";
    for (const Option& option : group.options) {
      page += "| `" + markdown(head(option)) + "` | " + markdown(option.help) + " | " + markdown(values_text(option)) +
              " | " + markdown(default_of(option)) + " |\n";
    }
  }
  if (!program.notes.empty()) page += '\n' + wrapped(markdown(program.notes), 120, 0, 0);
  return page + '\n' + wrapped(std::string(exit_codes), 120, 0, 0);
}

int output_columns() {
  constexpr int most = 100;
  winsize size{};
  const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const char* columns = std::getenv("COLUMNS");
  const int wide = is_known ? size.ws_col : columns != nullptr ? std::atoi(columns) : most;
  return wide <= 0 ? most : std::clamp(wide, 60, most);
}

}  // namespace lockstep
