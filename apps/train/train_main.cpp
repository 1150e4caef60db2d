// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/run_app.hpp"
#include "apps/common/same_options.hpp"
#include "apps/train/device.hpp"
#include "apps/train/facts.hpp"
#include "apps/train/kernel_choices.hpp"
#include "apps/train/options.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/session.hpp"
#include "lockstep/train.hpp"
#include "platform/mpi/print.hpp"

namespace lockstep {
namespace {

/// Returns the message for a run that needs more memory than there is.
std::string needs_memory(const train::Options& options, const World& world) {
  const std::int64_t samples = train::largest_leaf(options, world.size());
  return "not enough memory for " + std::to_string(samples) + " samples at a time of --model " + options.model +
         " (--batch " + std::to_string(options.trainer.batch.value) + ", --accumulate " +
         std::to_string(options.trainer.step.accumulate) + ", " + std::to_string(world.size()) +
         (world.size() == 1 ? " rank" : " ranks") + ") and --workers " + std::to_string(options.trainer.workers) +
         " batches ahead; raise --accumulate, take a smaller --batch or fewer --workers, or start more ranks on other "
         "hosts";
}

}  // namespace

int train_main(int argc, char** argv, const Registry& registry) {
  open_standard_streams();  // before any file is opened
  train::CommandLine command_line;
  std::string mistake;
  try {
    command_line = train::parse_options(argc, argv, registry);
    if (command_line.to_print.empty()) train::start_ranks(argc, argv, command_line.options);
  } catch (const UsageError& error) {
    mistake = error.what();
  }
  if (!mistake.empty() && std::find(argv, argv + argc, std::string_view("--help=launcher")) != argv + argc) {
    print_error(program_name(argc, argv), mistake);  // without MPI, since lockstep-launch asks before it starts ranks
    return exit_usage;
  }
  if (!command_line.to_print.empty()) return print_once(program_name(argc, argv), command_line.to_print);
  const WorldOptions world_options{.deadline = std::chrono::duration<double>(command_line.options.timeout_seconds)};
  return run_app(program_name(argc, argv), world_options, [&](World& world) {
    if (train::takes_options_of_run(command_line.options)) {
      require_same_start(world, program_name(argc, argv), mistake, command_line.options.settings);
      const train::OptionsOfRun run = train::read_options_of_run(world, command_line.options);
      try {
        command_line = train::parse_options(argc, argv, registry, &run);
        world.set_deadline(std::chrono::duration<double>(command_line.options.timeout_seconds));
      } catch (const UsageError& error) {
        mistake = error.what();
      }
    }
    std::vector<Term> settings = train::facts_to_compare(command_line.options);
    settings.insert(settings.end(), command_line.options.settings.begin(), command_line.options.settings.end());
    require_same_start(world, program_name(argc, argv), mistake, settings);
    if (world.rank() == Rank{0})
      for (const std::string& note : command_line.notes) print_error(program_name(argc, argv), "note: " + note);
    train::complete_for(world.size(), command_line.options);
    if (const std::string why = world.why_not_elastic(); command_line.options.min_ranks > 0 && !why.empty())
      throw UsageError("--min-ranks " + std::to_string(command_line.options.min_ranks) + ": " + why);
    try {
      return train::run_session(world, command_line.options, registry);
    } catch (const std::bad_alloc&) {
      throw std::runtime_error(needs_memory(command_line.options, world));
    }
  });
}

}  // namespace lockstep
