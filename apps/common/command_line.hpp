// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "apps/common/run_app.hpp"

namespace lockstep {

/// Reads the command line, and where `--config FILE` is among the options that file too; the command line goes before
/// the file. Options must be written out in full; a word that belongs to none is refused.
/// @throws UsageError that names the word at fault, with the nearest option for an unknown one
boost::program_options::variables_map read_command_line(int argc, const char* const* argv,
                                                        const boost::program_options::options_description& options);

/// @throws UsageError naming option and word, with the nearest choice and all of them, unless `word` is a choice
void require_choice(std::string_view option, const std::string& word, std::span<const std::string_view> choices);

/// @throws UsageError "--option value: rule" unless the rule holds
template <typename T>
void require(bool holds, std::string_view option, const T& value, std::string_view rule) {
  if (holds) return;
  std::ostringstream text;
  text << "--" << option << ' ' << value << ": " << rule;
  throw UsageError(text.str());
}

/// "a|b|c"
std::string joined(std::span<const std::string_view> words);

}  // namespace lockstep
