// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/help.hpp"

#include <algorithm>
#include <sstream>

#include "apps/cli/terminal.hpp"
#include "apps/cli/version.hpp"
#include "base/wrapped.hpp"
#include "lockstep/base/version.hpp"

namespace lockstep::cli {
namespace {

constexpr std::string_view exit_codes =
    "Exit codes: 0 success; 1 an error, and one line says which, on which rank and host; 2 a wrong command line or "
    "configuration file; 4 a rank did not answer in time, and standard error says what all ranks were doing.";

/// Returns whether the option is "no" unless it is given, so that it needs no value.
bool is_plain_switch(const Option& option) {
  return std::holds_alternative<Switch>(option.domain) && option.otherwise.value == "no";
}

std::string default_of(const Option& option) {
  return option.otherwise.text.empty() ? option.otherwise.value : option.otherwise.text;
}

/// Returns a text such as "peak learning rate (0 < X <= 1000; default: by model)".
std::string meaning(const Option& option) {
  const std::string values = texts_of(option.domain).values;
  const std::string what = is_plain_switch(option) ? "" : default_of(option);
  const std::string otherwise = what.empty() ? "" : "default: " + what;
  const std::string both = values + (values.empty() || otherwise.empty() ? "" : "; ") + otherwise;
  return option.help + (both.empty() ? "" : " (" + both + ")");
}

std::string head(const Option& option) {
  const std::string value = is_plain_switch(option) ? "" : texts_of(option.domain).placeholder;
  return "--" + option.name + (value.empty() ? "" : ' ' + value);
}

/// Wraps each line of a text.
std::string paragraphs(const std::string& text, std::size_t columns, std::size_t indent = 0) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result += wrapped(line, columns, indent);
  return result;
}

std::string option_text(const Option& option, std::size_t columns) {
  const std::size_t indent = columns < 90 ? 22 : 26;
  const std::string line = "  " + head(option);
  const bool fits = columns_of(line) + 2 <= indent;
  return fits ? wrapped(padded(line, indent) + meaning(option), columns, indent)
              : line + '\n' + wrapped(std::string(indent, ' ') + meaning(option), columns, indent);
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

/// Returns the names of the options that are completed alike, as the patterns of a case: "--config|--tuning".
template <typename Holds>
std::string names_of(const Program& program, const Holds& holds, const char* between = "|") {
  std::string names;
  for (const Option* option : rows_of(program))
    if (holds(*option)) names += (names.empty() ? "--" : std::string(between) + "--") + option->name;
  return names;
}

/// Returns the branches of a shell's case that complete the values of options.
std::string cases_of(const Program& program) {
  std::string cases;
  for (const Option* option : rows_of(program)) {
    if (const auto* word = std::get_if<Word>(&option->domain))
      cases += "    --" + option->name + ") COMPREPLY=($(compgen -W '" + joined(word->words, " ") +
               "' -- \"$word\")); return ;;\n";
  }
  for (const auto& [placeholder, flag] : {std::pair("FILE", "-f"), std::pair("DIR", "-d")}) {
    const std::string names = names_of(program, [kind = placeholder](const Option& option) {
      const auto* text = std::get_if<Text>(&option.domain);
      return text != nullptr && text->placeholder == kind;
    });
    if (names.empty()) continue;
    cases += "    " + names + ") compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen " + flag +
             " -- \"$word\")); return ;;\n";
  }
  const std::string numbers = names_of(program, [](const Option& option) {
    return std::holds_alternative<Whole>(option.domain) || std::holds_alternative<Real>(option.domain) ||
           std::holds_alternative<Duration>(option.domain);
  });
  return cases + (numbers.empty() ? "" : "    " + numbers + ") return ;;\n");
}

}  // namespace

OptionGroup general_options() {
  static const std::vector<std::string_view> formats = {"text", "man", "markdown", "completion", "launcher"};
  return {
      "General",
      {row("help", Word{formats, false, "text"}, no_default,
           "print this text, or with --help=FORMAT the same in another format; launcher prints the options "
           "that are given, for lockstep-launch",
           {}, Scope::each_rank),
       row("version", Switch{}, "no", "print the versions of lockstep and of its libraries", {}, Scope::each_rank)}};
}

std::string requested_text(const OptionValues& values, const Program& program) {
  const auto format = values.get<std::string>("help");
  if (format == "text")
    return help_text(program, std::clamp<int>(static_cast<int>(terminal_columns().value_or(100)), 60, 100));
  if (format == "man") return help_man(program);
  if (format == "markdown") return help_markdown(program);
  if (format == "completion") return help_completion(program);
  if (format == "launcher") return values.for_launcher();
  return values.get<bool>("version") ? version_text(program.name) : "";
}

std::string help_text(const Program& program, int columns) {
  const auto most = static_cast<std::size_t>(columns);
  std::string text = paragraphs("Usage: " + program.synopsis, most, 2) + paragraphs(program.about, most);
  for (const OptionGroup& group : program.groups) {
    text += '\n' + group.title + ":\n";
    for (const Option& option : group.options) text += option_text(option, most);
  }
  if (!program.notes.empty()) text += '\n' + paragraphs(program.notes, most);
  return text + '\n' + paragraphs(std::string(exit_codes), most);
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
                     "`.\n\n    " + program.synopsis + "\n\n" + paragraphs(markdown(program.about), 120);
  for (const OptionGroup& group : program.groups) {
    page += "\n## " + group.title + "\n\n| Option | Meaning | Values | Default |\n|---|---|---|---|\n";
    for (const Option& option : group.options) {
      page += "| `" + markdown(head(option)) + "` | " + markdown(option.help) + " | " +
              markdown(texts_of(option.domain).values) + " | " + markdown(default_of(option)) + " |\n";
    }
  }
  if (!program.notes.empty()) page += '\n' + paragraphs(markdown(program.notes), 120);
  return page + '\n' + paragraphs(std::string(exit_codes), 120);
}

std::string help_completion(const Program& program) {
  std::string function = "_lockstep_" + program.name;
  std::ranges::replace(function, '-', '_');
  const std::string all = names_of(
      program, [](const Option&) { return true; }, " ");
  const std::string completes = function + ' ' + program.name + '\n';
  return "#compdef " + program.name + "\n# Completes the options of " + program.name +
         " in bash and zsh. Written by `" + program.name + " --help=completion`.\n" + function +
         "() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  # bash takes --option=value for three words.\n"
         "  if [[ $word == '=' ]]; then word=''; elif [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; "
         "fi\n"
         "  COMPREPLY=()\n"
         "  case $before in\n" +
         cases_of(program) + "  esac\n  COMPREPLY=($(compgen -W '" + all +
         "' -- \"$word\"))\n}\n"
         "if [[ -n ${ZSH_VERSION-} ]]; then\n"
         "  autoload -U +X compinit bashcompinit && bashcompinit\n"
         "  complete -F " +
         completes + "  if [[ ${funcstack[1]} == _" + program.name + " ]]; then _bash_complete -F " + function +
         "; fi\n"
         "else\n  complete -F " +
         completes + "fi\n";
}

}  // namespace lockstep::cli
