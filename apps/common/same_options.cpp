// SPDX-License-Identifier: Apache-2.0
#include "apps/common/same_options.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "apps/common/run_app.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep {
namespace {

namespace po = boost::program_options;

/// Writes the value if it is of this type. @return whether it is
template <typename T>
bool write_as(std::ostringstream& text, const boost::any& value) {
  const T* held = boost::any_cast<T>(&value);
  if (held != nullptr) text << *held;
  return held != nullptr;
}

/// A value of another type than these reads "given".
std::string text_of(const boost::any& value) {
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << std::boolalpha;
  const bool is_known = write_as<std::string>(text, value) || write_as<bool>(text, value) ||
                        write_as<int>(text, value) || write_as<double>(text, value) ||
                        write_as<std::int64_t>(text, value) || write_as<std::uint64_t>(text, value);
  return is_known ? text.str() : "given";
}

}  // namespace

std::vector<Setting> settings_to_compare(const po::variables_map& values,
                                         std::span<const std::string_view> may_differ) {
  std::vector<Setting> settings;
  for (const auto& [name, value] : values) {
    if (std::find(may_differ.begin(), may_differ.end(), name) != may_differ.end()) continue;
    settings.push_back({"--" + name, text_of(value.value())});
  }
  return settings;
}

void require_same_command_line(const World& world, const std::string& mistake, const std::vector<Setting>& settings) {
  const Phase phase(world.group(), "comparing the options of all ranks");
  require_equal(world.group(), {{"a mistake in its options:", mistake.empty() ? "none" : mistake}});
  if (!mistake.empty()) throw UsageError(mistake);
  require_equal(world.group(), settings);
}

}  // namespace lockstep
