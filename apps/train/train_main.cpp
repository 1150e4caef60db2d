// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <new>
#include <stdexcept>

#include "apps/cli/run_app.hpp"
#include "apps/train/model/computation.hpp"
#include "apps/train/run/run.hpp"
#include "lockstep/mpi/world.hpp"
#include "mpi/print.hpp"
#include "workloads/bundled.hpp"
#include "workloads/data_sets.hpp"

namespace lockstep::train {
namespace {

/// Parses the command line. A mistake in it is returned, because the other ranks have to hear of it.
CommandLine parse(int argc, char** argv, const Registry& registry, const OptionsOfRun* run = nullptr) {
  try {
    return parse_options(argc, argv, registry, run);
  } catch (const UsageError& error) {
    return {.mistake = error.what()};
  }
}

/// A command line, and what the ranks have agreed on with it.
struct Start {
  CommandLine line;
  Agreement agreement;
};

/// Compares the options of all ranks, after it has read those of the run that they resume. Collective.
/// @param typed  this rank's command line, also if it is invalid
/// @throws UsageError or Error on every rank, as cli::require_same_start
Start agreed_start(World& world, CommandLine typed, int argc, char** argv, const Registry& registry) {
  const std::string_view program = cli::program_name(argc, argv);
  if (takes_options_of_run(typed.options)) {
    cli::require_same_start(world, program, typed.mistake, typed.options.settings);
    const OptionsOfRun run = read_options_of_run(world, typed.options);
    typed = parse(argc, argv, registry, &run);
    if (typed.mistake.empty()) world.set_deadline(std::chrono::duration<double>(typed.options.timeout_seconds));
  }
  Agreement more;
  more.add(typed.options.settings);
  add_paths(more, typed.options);
  Agreement agreement =
      cli::require_same_start(world, program, typed.mistake, facts_to_compare(typed.options), std::move(more));
  if (world.rank() == Rank{0})
    for (const std::string& note : typed.notes) print_error(program, "note: " + note);
  return {std::move(typed), std::move(agreement)};
}

/// Returns the message for a run that needs more memory than there is.
std::string needs_memory(const Options& options, Count batch, int ranks) {
  return "not enough memory for " + std::to_string(largest_leaf(options, batch, ranks)) +
         " samples at a time of --model " + options.model + " (--batch " + std::to_string(batch.value) +
         ", --accumulate " + std::to_string(options.trainer.step.accumulate) + ", " + std::to_string(ranks) +
         (ranks == 1 ? " rank" : " ranks") +
         ") and the batches that --workers prepare ahead; raise --accumulate, take a smaller --batch or fewer "
         "--workers, or start more ranks on other "
         "hosts";
}

/// Writes the sheet of --show-batch on rank 0. Collective. @return the exit code
int show_batch_once(const World& world, const Options& options, const Data& data, Console& console) {
  const Phase phase(world.group(), "drawing the first batch", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] { show_batch(data.sets, options, data.batch); });
  console.print("the first batch as the network sees it: " + options.user_data.show_batch + '\n');
  return exit_success;
}

/// Performs one run from start to end, stage by stage. Each stage returns a value, which the next ones read.
/// Collective.
/// @return the exit code
int run_stages(World& world, const Start& start, const Registry& registry) {
  const Options& options = start.line.options;
  const Clock::time_point begin = Clock::now();
  const GlobalBatch batch = global_batch(world.size(), options);
  if (const std::string why = world.why_not_elastic(); options.min_ranks > 0 && !why.empty())
    throw UsageError("--min-ranks " + std::to_string(options.min_ranks) + ": " + why);
  try {
    StopSignals signals;            // before any thread that computes starts
    std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of the write, not the end of the run
    Console console(world, options.program);
    const Cluster cluster = join_cluster(world, options, batch, start.agreement, console);
    console.phase("loading " + name_of_data(options));
    const auto [data, model] = load_data_and_model(cluster, options, registry);
    if (data.pictures && options.predict.empty()) console.print(text_of(data.pictures->survey) + '\n');
    if (!options.user_data.show_batch.empty()) return show_batch_once(world, options, data, console);
    return run(options, cluster, data, model, console, signals, begin);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error(needs_memory(options, batch.samples, world.size()));
  }
}

}  // namespace
}  // namespace lockstep::train

lockstep::Registry::Registry() : workloads(workloads::bundled()), libraries(train::bundled_libraries()) {
  for (data::DatasetEntry& entry : workloads::data_sets()) datasets.add(std::move(entry));
}

int lockstep::train_main(int argc, char** argv, const Registry& registry) {
  open_standard_streams();  // before any file is opened
  const std::string_view program = cli::program_name(argc, argv);
  train::CommandLine line = train::parse(argc, argv, registry);
  if (line.mistake.empty() && line.to_print.empty()) {
    try {
      train::start_ranks(argc, argv, line.options);
    } catch (const UsageError& error) {
      line.mistake = error.what();
    }
  }
  if (!line.mistake.empty() && std::find(argv, argv + argc, std::string_view("--help=launcher")) != argv + argc) {
    print_error(program, line.mistake);  // without MPI, since lockstep-launch asks before it starts ranks
    return exit_usage;
  }
  if (!line.to_print.empty()) return cli::print_once(program, line.to_print);
  const WorldOptions world_options{.deadline = std::chrono::duration<double>(line.options.timeout_seconds),
                                   .program = std::string(program)};
  return run(world_options, [&](World& world) {
    return train::run_stages(world, train::agreed_start(world, line, argc, argv, registry), registry);
  });
}
