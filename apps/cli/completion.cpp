// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "apps/cli/help.hpp"

namespace lockstep::cli {
namespace {

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

std::string help_completion(const Program& program) {
  std::string function = "_lockstep_" + program.name;
  std::replace(function.begin(), function.end(), '-', '_');
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
