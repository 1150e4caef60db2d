// SPDX-License-Identifier: Apache-2.0
#include "apps/common/command_line.hpp"

#include <fstream>
#include <vector>

#include "base/nearest.hpp"

namespace lockstep {
namespace {

namespace po = boost::program_options;

std::string nearest_option(const std::string& word, const po::options_description& options) {
  std::vector<std::string_view> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  return nearest(word, names);
}

/// Runs a step of parsing and says in the program's own words what was wrong.
/// @param place   "" or " in FILE"
/// @param dashes  what stands before an option's name there
template <typename Parse>
void in_own_words(const po::options_description& options, const std::string& place, const std::string& dashes,
                  const Parse& parse) {
  try {
    parse();
  } catch (const po::unknown_option& error) {
    std::string name = error.get_option_name();
    name = name.substr(0, name.find('='));
    name.erase(0, name.find_first_not_of('-'));
    throw UsageError("there is no option '" + dashes + name + "'" + place + "; did you mean '" + dashes +
                     nearest_option(name, options) + "'? --help lists all");
  } catch (const po::error& error) {
    throw UsageError(error.what() + place + "; --help says what is possible");
  }
}

void refuse_words(const po::parsed_options& parsed) {
  for (const auto& option : parsed.options) {
    if (option.position_key < 0) continue;
    throw UsageError("'" + option.value.front() + "' belongs to no option; options start with '--'");
  }
}

void read_file(const std::string& path, const po::options_description& options, po::variables_map& values) {
  std::ifstream file(path);
  if (!file) throw UsageError("--config " + path + ": the file cannot be read");
  in_own_words(options, " in " + path, "", [&] { po::store(po::parse_config_file(file, options), values); });
}

}  // namespace

po::variables_map read_command_line(int argc, const char* const* argv, const po::options_description& options) {
  namespace style = po::command_line_style;
  po::variables_map values;
  in_own_words(options, "", "--", [&] {
    const po::parsed_options parsed =
        po::command_line_parser(argc, argv).options(options).style(style::unix_style & ~style::allow_guessing).run();
    refuse_words(parsed);
    po::store(parsed, values);
  });
  if (values.count("config") > 0) read_file(values["config"].as<std::string>(), options, values);
  in_own_words(options, "", "--", [&] { po::notify(values); });
  return values;
}

void require_choice(std::string_view option, const std::string& word, std::span<const std::string_view> choices) {
  for (const std::string_view choice : choices) {
    if (word == choice) return;
  }
  throw UsageError("--" + std::string(option) + " " + word + ": there is no such choice; did you mean '" +
                   nearest(word, choices) + "'? There are " + joined(choices));
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : "|") + std::string(word);
  return text;
}

}  // namespace lockstep
