// SPDX-License-Identifier: Apache-2.0
#include "apps/common/same_options.hpp"

#include "apps/common/run_app.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep {

std::vector<Setting> settings_to_compare(const OptionValues& values) {
  std::vector<Setting> settings;
  for (auto& [name, value] : values.of_all_ranks()) settings.push_back({name, value});
  return settings;
}

void require_same_command_line(const World& world, const std::string& mistake, const std::vector<Setting>& settings) {
  const Phase phase(world.group(), "comparing the options of all ranks");
  require_equal(world.group(), {{"a mistake in its options:", mistake.empty() ? "none" : mistake}});
  if (!mistake.empty()) throw UsageError(mistake);
  require_equal(world.group(), settings);
}

}  // namespace lockstep
