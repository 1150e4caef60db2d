// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "apps/train/run/training.hpp"
#include "base/nearest.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "state/verify.hpp"

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

std::string extents_text(const std::optional<std::vector<std::int64_t>>& extents) {
  if (!extents) return "-";
  std::string text;
  for (const std::int64_t extent : *extents) text += (text.empty() ? "" : ",") + std::to_string(extent);
  return '[' + text + ']';
}

/// Returns a line about the file, and a table of the tensors where not all were loaded: loaded ones are counted by the
/// first part of their names.
/// @param match  by which they were loaded
std::string table_of(const std::filesystem::path& path, const trainer::LoadedWeights& weights,
                     trainer::WeightsMatch match) {
  std::vector<std::pair<std::string, int>> parts;  // loaded tensors of each part of the model
  std::vector<std::array<std::string, 4>> rows = {{"tensor", "in the file", "in the model", ""}};
  int loaded = 0;
  int of_model = 0;
  for (const trainer::LoadedWeights::Tensor& tensor : weights.tensors) {
    of_model += tensor.in_model ? 1 : 0;
    if (tensor.is_loaded()) {
      ++loaded;
      const std::string part = echo(tensor.name.substr(0, tensor.name.find('.')));
      auto known = std::ranges::find_if(parts, [&](const auto& one) { return one.first == part; });
      if (known == parts.end()) known = parts.insert(known, {part, 0});
      ++known->second;
    } else {
      rows.push_back({echo(tensor.name), tensor.not_real.empty() ? extents_text(tensor.in_file) : tensor.not_real,
                      extents_text(tensor.in_model), tensor.in_model ? "drawn by --seed" : "not used"});
    }
  }
  std::string text = "weights from " + path.string() + ": " + std::to_string(loaded) + " of the model's " +
                     std::to_string(of_model) + " tensors" +
                     (match == trainer::WeightsMatch::any_head && loaded < of_model
                          ? "; the head is for another number of classes and is drawn anew\n"
                          : "\n");
  if (rows.size() == 1) return text + '\n';
  std::array<std::size_t, 4> widths{};
  for (const auto& row : rows)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size() + 2);
  for (auto row : rows) {
    for (std::size_t column = 0; column + 1 < row.size(); ++column) row[column].resize(widths[column], ' ');
    text += "  " + row[0] + row[1] + row[2] + row[3] + '\n';
  }
  text += "  loaded:";
  for (const auto& [part, count] : parts) text += ' ' + part + " (" + std::to_string(count) + ')';
  return text + "\n\n";
}

/// Describes the options of which the checkpoint's run had other values; one that must not differ was refused before.
std::string changes_since(const std::map<std::string, std::map<std::string, std::string>>& notes,
                          const Options& options) {
  const auto before = notes.find("options");
  if (before == notes.end()) return {};
  constexpr std::string_view of_one_run[] = {"--save-dir", "--resume",  "--metrics",         "--tensorboard",
                                             "--trace",    "--weights", "--partial-weights", "--max-time"};
  std::string text;
  for (const Term& setting : options.settings) {
    const auto value = before->second.find(setting.name);
    if (value == before->second.end() || value->second == setting.value) continue;
    if (std::find(std::begin(of_one_run), std::end(of_one_run), setting.name) != std::end(of_one_run)) continue;
    text += "changed since: " + setting.name + ' ' + echo(value->second, 400) + ", now " + setting.value + '\n';
  }
  return text;
}

/// Resumes; if the run differs from that of the checkpoint, the error also names the file with the options of that run.
trainer::Trainer::Resumed resume_or_say_how(const RunContext& run, trainer::Trainer& trainer) {
  const Options& options = run.options;
  try {
    return trainer.resume(options.resume, run.folder.checkpoints);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch || options.options_file.empty()) throw;
    throw Error(error.code(), error.message() + ", or leave them out: " + options.options_file + " has them",
                error.context())
        .on_every_rank();
  }
}

/// Says how a run that is complete may go on; nothing of another one.
std::string complete_text(const trainer::Trainer& trainer, const Options& options) {
  if (trainer.state().global_step < trainer.total_steps()) return {};
  const std::int64_t steps = options.trainer.steps;
  const bool by_steps = steps != 0 && steps == trainer.total_steps();
  return "nothing is left to train: to train on, give a larger " +
         (by_steps ? "--steps than " + std::to_string(steps)
                   : "--epochs than " + std::to_string(options.trainer.epochs)) +
         '\n';
}

/// Returns place and reason of the first line of a list of bad samples, whose fields are part, sample, place and
/// reason.
std::string first_of(const std::string& list) {
  std::string line = list.substr(0, list.find('\n'));
  line.erase(0, line.find('\t', line.find('\t') + 1) + 1);
  return line.replace(line.find('\t'), 1, ": ");
}

/// Lists the samples that were skipped, in the folder of the run if it has one. Collective.
void report_skipped_samples(const RunContext& run) {
  if (!run.data.pictures || run.options.user_data.on_bad_sample == vision::OnBadSample::stop) return;
  const World& world = run.cluster.world;
  const Phase phase(world.group(), "listing bad samples", Phase::Kind::work);
  const std::string list = skipped_samples(*run.data.pictures, world);
  std::string where;
  agree_on_rank_zero(world.group(), [&] {
    if (list.empty() || run.folder.path == no_save_dir) return;
    where = (std::filesystem::path(run.folder.path) / "bad_samples.txt").string();
    std::ofstream file(where);
    if (!(file << list) || !file.flush())
      throw Error(ErrorCode::io, "cannot write " + where + ": " + std::strerror(errno));
  });
  const auto count = std::ranges::count(list, '\n');
  if (count == 0) return;
  run.console.print((count == 1 ? "1 bad sample was skipped" : std::to_string(count) + " bad samples were skipped") +
                    (where.empty() ? "; the first is " + first_of(list) : ", listed in " + where) + '\n');
}

}  // namespace

bool has_progress_thread(const RunContext& run) {
  const std::string& wish = run.options.progress_thread;
  if (wish != "auto") return wish == "yes";
  // It is of use where messages leave the host, and where it does not take a processor from computing (ADR 4).
  const NodeView& node = run.cluster.node;
  return run.model.device.device == Device::cpu && run.cluster.world.shape().nodes() > 1 &&
         provided_thread_level() == ThreadLevel::multiple && !oversubscribed(node.bound_pus, node.threads + 1);
}

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
  if (options.eval_only) {
    const int code = options.predict.empty() ? training.evaluate() : training.predict();
    report_skipped_samples(context);
    return code;
  }
  signals.handle();
  training.run();
  report_skipped_samples(context);
  if (recorder) write_trace(cluster.world, folder, *recorder, files.trace, console);
  console.print(training.not_saved_text());
  return training.exit_code();
}

std::string resume(const RunContext& context, trainer::Trainer& trainer, const std::string& library) {
  const Options& options = context.options;
  if (options.resume.empty()) return {};
  const trainer::Trainer::Resumed resumed = resume_or_say_how(context, trainer);
  std::string text;
  for (const std::string& refused : resumed.refused) text += "not resumed from: " + refused + '\n';
  const trainer::RunState& run = trainer.state();
  if (run.global_step == 0)
    return text + "no checkpoint to resume from in " + context.folder.path + ": a fresh start\n\n";
  const std::string others =
      resumed.foreign_kernel_choices == 0
          ? ""
          : std::to_string(resumed.foreign_kernel_choices) +
                " kernel choices of the checkpoint are not used: they are another compute library's than --ops " +
                library + "\n";
  return text + "resumed from " + resumed.path.string() + ": epoch " + std::to_string(run.epoch) + ", step " +
         std::to_string(run.step) + "; " + std::to_string(run.global_step) + " of " +
         std::to_string(trainer.total_steps()) + " steps done\n" + others + changes_since(resumed.notes, options) +
         complete_text(trainer, options) + '\n';
}

std::string load_weights(const RunContext& run, trainer::Trainer& trainer) {
  const Options& options = run.options;
  const RankSet& ranks = run.cluster.world.group();
  const bool is_resumed = !options.resume.empty() && (options.resume != "auto" || trainer.state().global_step > 0);
  if (is_resumed && !options.eval_only) return {};  // the checkpoint has its own
  std::filesystem::path path = options.weights;
  if (options.eval_only && !options.resume.empty()) {
    const Phase phase(ranks, "looking for the checkpoint", Phase::Kind::work);
    agree_on_rank_zero(ranks, [&] {
      path = state::find_checkpoint(options.resume, run.folder.checkpoints).path.value() / "model.safetensors";
    });
  } else if (options.weights.empty()) {
    return {};
  }
  const Phase phase(ranks, "loading weights", Phase::Kind::work);
  const trainer::WeightsMatch match = options.partial_weights ? trainer::WeightsMatch::partial
                                      : options.eval_only     ? trainer::WeightsMatch::strict
                                                              : trainer::WeightsMatch::any_head;
  try {
    return table_of(path, trainer.load_weights(path, match), match);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch || match == trainer::WeightsMatch::partial) throw;
    throw Error(error.code(), error.message() + " (--partial-weights)", error.context()).on_every_rank();
  }
}

}  // namespace lockstep::train
