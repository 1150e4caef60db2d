// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/run.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "apps/train/run/training.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep::train {
namespace {

/// Starts the clocks of all ranks' traces at the same time. @return nothing if no trace is wanted
std::optional<observe::TraceRecorder> start_together(const World& world, const RunFolder& folder) {
  const Phase phase(world.group(), "preparing the training", Phase::Kind::work);
  barrier(world.group());
  if (folder.trace.empty()) return std::nullopt;
  return std::optional<observe::TraceRecorder>(
      std::in_place, observe::TraceOptions{.rank = world.rank(), .host = world.host(), .origin = Clock::now()});
}

void write_trace(const World& world, const RunFolder& folder, const observe::TraceRecorder& recorder,
                 std::optional<observe::TraceFile>& file, Console& console) {
  console.phase("writing " + folder.trace);
  const Phase phase(world.group(), "writing the trace '" + folder.trace + "'", Phase::Kind::work);
  const std::vector<std::string> events = gather_strings(world.group(), recorder.events_json(), {0});
  agree(world.group(), [&] {
    if (file) file->write(events);
  });
  console.print("trace: " + folder.trace + '\n');
}

}  // namespace

int run(const Options& options, const Cluster& cluster, const Data& data, const ModelOnDevice& model, Console& console,
        StopSignals& signals, Clock::time_point begin) {
  const RunFolder folder = open_run_folder(cluster, options, console);
  RunFiles files = open_files(cluster.world, folder);
  console.phase("connecting the ranks");
  std::optional<observe::TraceRecorder> recorder = start_together(cluster.world, folder);
  const RunContext context{.options = options,
                           .cluster = cluster,
                           .data = data,
                           .model = model,
                           .folder = folder,
                           .console = console,
                           .recorder = recorder ? &*recorder : nullptr,
                           .begin = begin};
  Training training(context, files);
  if (options.eval_only) return training.evaluate();
  signals.handle();
  training.run();
  if (recorder) write_trace(cluster.world, folder, *recorder, files.trace, console);
  console.print(training.not_saved_text());
  return training.exit_code();
}

}  // namespace lockstep::train
