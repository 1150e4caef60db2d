// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "apps/common/help.hpp"

namespace lockstep {
namespace {

/// Returns the options whose values are completed alike, as the patterns of a case: "--config|--tuning".
template <typename Holds>
std::string names_of(const Program& program, const Holds& holds) {
  std::string names;
  for (const OptionGroup& group : program.groups) {
    for (const Option& option : group.options) {
      if (holds(option)) names += (names.empty() ? "--" : "|--") + option.name;
    }
  }
  return names;
}

std::string placeholder_of_text(const Option& option) {
  const auto* text = std::get_if<Text>(&option.domain);
  return text == nullptr ? "" : text->placeholder;
}

}  // namespace

std::string help_completion(const Program& program) {
  std::string function = "_lockstep_" + program.name;
  std::replace(function.begin(), function.end(), '-', '_');
  std::string cases;
  for (const OptionGroup& group : program.groups) {
    for (const Option& option : group.options) {
      const auto* word = std::get_if<Word>(&option.domain);
      if (word == nullptr) continue;
      cases += "    --" + option.name + ") COMPREPLY=($(compgen -W '" + joined(word->words, " ") +
               "' -- \"$word\")); return ;;\n";
    }
  }
  const auto of = [&](const char* kind) {
    return names_of(program, [&](const Option& option) { return placeholder_of_text(option) == kind; });
  };
  for (const auto& [names, flag] : {std::pair(of("FILE"), "-f"), std::pair(of("DIR"), "-d")}) {
    if (names.empty()) continue;
    cases += "    " + names + ") compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen " + flag +
             " -- \"$word\")); return ;;\n";
  }
  const std::string numbers = names_of(program, [](const Option& option) {
    return std::holds_alternative<Whole>(option.domain) || std::holds_alternative<Real>(option.domain) ||
           std::holds_alternative<Duration>(option.domain);
  });
  if (!numbers.empty()) cases += "    " + numbers + ") return ;;\n";
  std::string all = names_of(program, [](const Option&) { return true; });
  std::replace(all.begin(), all.end(), '|', ' ');
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
         cases + "  esac\n  COMPREPLY=($(compgen -W '" + all + "' -- \"$word\"))\n}\n" +
         "if [[ -n ${ZSH_VERSION-} ]]; then\n"
         "  autoload -U +X compinit bashcompinit && bashcompinit\n"
         "  complete -F " +
         completes + "  if [[ ${funcstack[1]} == _" + program.name + " ]]; then _bash_complete -F " + function +
         "; fi\n"
         "else\n  complete -F " +
         completes + "fi\n";
}

}  // namespace lockstep
