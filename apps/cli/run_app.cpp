// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/run_app.hpp"

#include <cstdio>

#include "apps/cli/facts.hpp"
#include "apps/cli/help.hpp"
#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "mpi/print.hpp"
#include "platform/machine/launch.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::cli {

std::string_view program_name(int argc, const char* const* argv) {
  const std::string_view path = argc > 0 && argv[0] != nullptr ? argv[0] : "";
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  return name.empty() ? "lockstep" : name;
}

int print_once(std::string_view app, const std::string& text) {
  if (first_process(read_environment())) std::fwrite(text.data(), 1, text.size(), stdout);
  const auto failure = flush_output();
  if (!failure) return exit_success;
  print_error(app, "cannot write all of standard output: " + *failure);
  return exit_error;
}

void refuse_mistakes(const World& world, const std::vector<std::string>& all) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (std::size_t rank = 0; rank < all.size(); ++rank) ranks_of[all[rank]].push_back(static_cast<int>(rank));
  if (ranks_of.size() == 1 && !all.front().empty()) throw UsageError(all.front());
  ranks_of.erase("");
  std::string text;
  for (const auto& [its_mistake, ranks] : ranks_of) {
    const std::string who = rank_names(ranks, [&](int rank) { return world.hosts()[static_cast<std::size_t>(rank)]; });
    text += (text.empty() ? "" : "; ") + who + ": " + its_mistake;
  }
  if (!text.empty()) throw UsageError(text);
}

Agreement require_same_start(const World& world, std::string_view app, const std::string& mistake,
                             const std::vector<Term>& settings, Agreement more) {
  const Phase phase(world.group(), "comparing the options of all ranks");
  more.add(settings);
  more.add_fact("mistake", mistake);
  more.exchange(world.group());
  refuse_mistakes(world, more.fact("mistake"));
  try {
    warn_of(world, app, more.require_equal_terms());
  } catch (const Error& error) {
    throw Error(ErrorCode::mismatch,
                error.message() + "; start the same program with the same options and environment on all ranks",
                error.context())
        .on_every_rank();
  }
  return more;
}

int run_app(const Program& program, int argc, const char* const* argv, const WorldOptions& options,
            const std::function<int(World&)>& body) {
  OptionValues values(program);
  std::string mistake;
  try {
    values = read_command_line(argc, argv, program);
    values.store();
  } catch (const UsageError& error) {
    mistake = error.what();
  }
  const std::string to_print = requested_text(values, program);
  if (!to_print.empty()) return print_once(program.name, to_print);
  WorldOptions named = options;
  named.program = program.name;
  return run_in_world(named, [&](World& world) {
    std::vector<Term> settings = facts_of_process();
    const std::vector<Term> given = mistake.empty() ? values.of_all_ranks() : std::vector<Term>();
    settings.insert(settings.end(), given.begin(), given.end());
    require_same_start(world, program.name, mistake, settings);
    return body(world);
  });
}

void warn_of(const World& world, std::string_view app, const std::string& differences) {
  if (differences.empty() || world.rank() != Rank{0}) return;
  print_error(app, "warning: ranks differ, and the run goes on: " + differences);
}

}  // namespace lockstep::cli
