// SPDX-License-Identifier: Apache-2.0
#include "apps/common/same_options.hpp"

#include <cstddef>
#include <map>

#include "apps/common/run_app.hpp"
#include "base/nearest.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep {

std::vector<Setting> settings_to_compare(const OptionValues& values) {
  std::vector<Setting> settings;
  for (auto& [name, value] : values.of_all_ranks()) settings.push_back({name, value});
  return settings;
}

void require_no_mistake(const World& world, const std::string& mistake) {
  std::map<std::string, std::vector<int>> ranks_of;
  const std::vector<std::string> all = all_gather_strings(world.group(), mistake);
  for (std::size_t rank = 0; rank < all.size(); ++rank) ranks_of[all[rank]].push_back(static_cast<int>(rank));
  if (ranks_of.size() == 1 && !mistake.empty()) throw UsageError(mistake);
  ranks_of.erase("");
  std::string text;
  for (const auto& [its_mistake, ranks] : ranks_of) {
    const std::string who = rank_names(ranks, [&](int rank) { return world.hosts()[static_cast<std::size_t>(rank)]; });
    text += (text.empty() ? "" : "; ") + who + ": " + its_mistake;
  }
  if (!text.empty()) throw UsageError(text);
}

void require_same_command_line(const World& world, const std::string& mistake, const std::vector<Setting>& settings) {
  const Phase phase(world.group(), "comparing the options of all ranks");
  require_no_mistake(world, mistake);
  require_equal(world.group(), settings);
}

}  // namespace lockstep
