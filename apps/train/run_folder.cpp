// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "apps/common/command_line.hpp"
#include "apps/common/version.hpp"
#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/file.hpp"
#include "state/verify.hpp"

namespace lockstep::train {
namespace {

/// Makes the folder of the run, on rank 0. If the default folder cannot be made, nothing is saved.
void make_run_folder(const World& world, Options& options, const std::function<void(std::string_view)>& notice) {
  if (options.eval_only) {
    options.checkpoints.folder = std::exchange(options.save_dir, no_save_dir);
    return;
  }
  if (options.save_dir == no_save_dir) return;
  const Phase phase(world.group(), "making the folder of the run", Phase::Kind::work);
  std::string folder = options.save_dir;
  agree_on_rank_zero(world.group(), [&] {
    // A wrong path must not leave an empty folder behind.
    if (options.resume.empty() && !options.weights.empty()) state::File::open_to_read(options.weights);
    try {
      if (options.resume == "auto") {
        state::make_folders(folder);
      } else if (!continues_in_folder(options)) {
        folder = state::make_run_folder(folder).string();
      }
    } catch (const Error& error) {
      if (options.save_dir != default_save_dir || continues_in_folder(options)) throw;
      notice("nothing is saved: " + error.message());
      folder = no_save_dir;
    }
  });
  options.save_dir = broadcast_string(world.group(), folder, {0});
  if (options.save_dir == no_save_dir) return;
  options.checkpoints.folder = options.save_dir;
  if (options.metrics.empty()) options.metrics = options.checkpoints.folder / "metrics.jsonl";
}

/// Writes the options of the run to a file that --config reads. @throws Error{io} on every rank
void write_options(const World& world, const Options& options) {
  const bool is_there = continues_in_folder(options) && options.resume != "auto";
  if (options.save_dir == no_save_dir || is_there) return;
  const Phase phase(world.group(), "writing the options of the run", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    // A file that a crash or a full disk cuts would resume the run with other options.
    SharedTextFile((options.checkpoints.folder / "options.conf").string()).update([&](const auto&) {
      return "# Repeats the run: " + options.program +
             " --config FILE\n# Continues it, by these options: " + options.program + " --save-dir DIR --resume\n" +
             options.configuration;
    });
  });
}

/// Says which hosts do not see the folder that rank 0 has made. Nothing else depends on it, because rank 0 writes and
/// reads all files.
void notice_hosts_without(const World& world, const std::string& folder,
                          const std::function<void(std::string_view)>& notice) {
  const Phase phase(world.group(), "looking for the folder of the run");
  const std::vector<std::int64_t> seen =
      all_gather_numbers(world.group(), std::filesystem::is_directory(folder) ? 1 : 0);
  std::string hosts;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    const std::string& host = world.group().host_of({static_cast<int>(rank)});
    if (seen[rank] == 0 && hosts.find(host) == std::string::npos) hosts += (hosts.empty() ? "" : ", ") + host;
  }
  if (hosts.empty() || world.rank() != Rank{0}) return;
  notice("the folder '" + folder + "' is on " + world.host() + ", the host of rank 0, which writes and reads it; " +
         hosts + " sees no such folder");
}

std::string extents_text(const std::optional<std::vector<std::int64_t>>& extents) {
  if (!extents) return "-";
  std::string text;
  for (const std::int64_t extent : *extents) text += (text.empty() ? "" : ",") + std::to_string(extent);
  return '[' + text + ']';
}

/// Returns a line about the file, and a table of the tensors where not all were loaded: loaded ones are counted by the
/// first part of their names.
std::string table_of(const std::filesystem::path& path, const trainer::LoadedWeights& weights) {
  std::vector<std::pair<std::string, int>> parts;  // loaded tensors of each part of the model
  std::vector<std::array<std::string, 4>> rows = {{"tensor", "in the file", "in the model", ""}};
  int loaded = 0;
  int of_model = 0;
  for (const trainer::LoadedWeights::Tensor& tensor : weights.tensors) {
    of_model += tensor.in_model ? 1 : 0;
    if (tensor.is_loaded()) {
      ++loaded;
      const std::string part = echo(tensor.name.substr(0, tensor.name.find('.')));
      auto known = std::find_if(parts.begin(), parts.end(), [&](const auto& one) { return one.first == part; });
      if (known == parts.end()) known = parts.insert(known, {part, 0});
      ++known->second;
    } else {
      rows.push_back({echo(tensor.name), tensor.not_real.empty() ? extents_text(tensor.in_file) : tensor.not_real,
                      extents_text(tensor.in_model), tensor.in_model ? "drawn by --seed" : "not used"});
    }
  }
  std::string text = "weights from " + path.string() + ": " + std::to_string(loaded) + " of the model's " +
                     std::to_string(of_model) + " tensors\n";
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
  constexpr std::string_view of_one_run[] = {"--save-dir", "--resume",          "--metrics", "--trace",
                                             "--weights",  "--partial-weights", "--max-time"};
  std::string text;
  for (const Term& setting : options.settings) {
    const auto value = before->second.find(setting.name);
    if (value == before->second.end() || value->second == setting.value) continue;
    if (std::find(std::begin(of_one_run), std::end(of_one_run), setting.name) != std::end(of_one_run)) continue;
    text += "changed since: " + setting.name + ' ' + echo(value->second, 400) + ", now " + setting.value + '\n';
  }
  return text;
}

/// Returns the folder of the run that a checkpoint belongs to, as far as its place says.
std::filesystem::path run_of_checkpoint(const std::filesystem::path& checkpoint) {
  return checkpoint.parent_path().parent_path();
}

/// Returns the folder of the run that --resume or --weights means, or nothing if --resume auto finds no checkpoint, or
/// --weights names no file of one.
/// @throws Error{io} if there is no such run or checkpoint
std::filesystem::path folder_of_run(const Options& options) {
  std::error_code ignored;
  if (options.resume.empty()) {
    const auto checkpoint = std::filesystem::absolute(options.weights).lexically_normal().parent_path();
    const bool is_one = std::filesystem::exists(checkpoint / state::state_file_name, ignored);
    return is_one ? run_of_checkpoint(checkpoint) : std::filesystem::path();
  }
  if (options.resume == "auto") {
    const auto has_some = [](const std::filesystem::path& run) {
      return !run.empty() && !state::list_checkpoints(run).empty();
    };
    return has_some(options.save_dir) || has_some(options.checkpoints.fallback) ? options.save_dir : "";
  }
  if (continues_in_folder(options)) {
    const std::string why = why_no_folder(options.save_dir);
    if (why.empty()) return options.save_dir;
    throw Error(ErrorCode::io, "cannot resume from a checkpoint in '" + options.save_dir + "', which " + why +
                                   ": name the folder of a run by --save-dir, or start afresh where there is none with "
                                   "--resume auto");
  }
  (void)state::locate_checkpoint(options.resume, options.save_dir);
  std::filesystem::path path = std::filesystem::absolute(options.resume).lexically_normal();
  if (std::filesystem::is_directory(state::checkpoints_of(path), ignored)) return path;
  return run_of_checkpoint(path.has_filename() ? path : path.parent_path());  // without the last '/'
}

/// Resumes; if the run differs from that of the checkpoint, the error also names the file with the options of that run.
trainer::Trainer::Resumed resume_or_say_how(trainer::Trainer& trainer, const Options& options) {
  try {
    return trainer.resume(options.resume, options.checkpoints.folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch || options.options_file.empty()) throw;
    throw Error(error.code(), error.message() + ", or leave them out: " + options.options_file + " has them",
                error.context())
        .on_every_rank();
  }
}

}  // namespace

std::string agreed_path(const World& world, const std::string& option, const std::string& mine) {
  const Phase phase(world.group(), "comparing " + option);
  const std::vector<std::string> all = all_gather_strings(world.group(), mine);
  const auto is_given = [](const std::string& path) { return !path.empty(); };
  const auto first = std::find_if(all.begin(), all.end(), is_given);
  if (first == all.end()) return {};
  const auto other =
      std::find_if(first, all.end(), [&](const std::string& path) { return is_given(path) && path != *first; });
  if (other == all.end()) return *first;
  const auto named = [&](auto place) {
    const Rank rank{static_cast<int>(place - all.begin())};
    return "rank " + std::to_string(rank.value) + " on " + world.group().host_of(rank) + " has " + option + ' ' +
           echo(*place, 400);
  };
  throw Error(ErrorCode::mismatch, named(other) + ", but " + named(first) + ": rank 0 writes one file for all ranks",
              {.peers = {static_cast<int>(other - all.begin())}})
      .on_every_rank();
}

OptionsOfRun read_options_of_run(const World& world, const Options& options) {
  OptionsOfRun run;
  if (options.save_dir == no_save_dir && continues_in_folder(options)) return run;  // which is refused
  const Phase phase(world.group(), "reading the options of the run to resume", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    const std::filesystem::path folder = folder_of_run(options);
    const std::filesystem::path file = folder / "options.conf";
    std::error_code ignored;
    if (folder.empty() || std::filesystem::status(file, ignored).type() == std::filesystem::file_type::not_found)
      return;
    run.text = read_text(file.string(), most_configuration_bytes);
    run.path = file.string();
  });
  run.path = broadcast_string(world.group(), run.path, {0});
  run.text = broadcast_string(world.group(), run.text, {0});
  return run;
}

RunFiles open_run_folder(const World& world, Options& options, const std::function<void(std::string_view)>& notice) {
  make_run_folder(world, options, notice);
  write_options(world, options);
  if (options.save_dir != no_save_dir) notice_hosts_without(world, options.save_dir, notice);
  return open_files(world, options);
}

RunFiles open_files(const World& world, const Options& options) {
  RunFiles files;
  const Phase phase(world.group(), "opening the files to write", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    if (!options.metrics.empty()) files.metrics.emplace(options.metrics);
    if (!options.trace.empty()) files.trace.emplace(options.trace);
  });
  return files;
}

trainer::CheckpointOptions checkpoint_options(const Options& options, const ops::Ops& ops) {
  trainer::CheckpointOptions checkpoints = options.checkpoints;
  checkpoints.notes["program"] = {{"commit", commit()}, {"arithmetic", ops.arithmetic()}};
  for (const auto& [library, version] : library_versions()) checkpoints.notes["libraries"][library] = version;
  for (const Term& option : options.settings) checkpoints.notes["options"][option.name] = option.value;
  return checkpoints;
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

std::string resume(trainer::Trainer& trainer, const Options& options) {
  if (options.resume.empty()) return {};
  const trainer::Trainer::Resumed resumed = resume_or_say_how(trainer, options);
  std::string text;
  for (const std::string& refused : resumed.refused) text += "not resumed from: " + refused + '\n';
  const trainer::RunState& run = trainer.state();
  if (run.global_step == 0) return text + "no checkpoint to resume from in " + options.save_dir + ": a fresh start\n\n";
  const std::string others =
      resumed.foreign_kernel_choices == 0
          ? ""
          : std::to_string(resumed.foreign_kernel_choices) +
                " kernel choices of the checkpoint are not used: they are another compute library's than --ops " +
                options.ops + "\n";
  return text + "resumed from " + resumed.path.string() + ": epoch " + std::to_string(run.epoch) + ", step " +
         std::to_string(run.step) + "; " + std::to_string(run.global_step) + " of " +
         std::to_string(trainer.total_steps()) + " steps done\n" + others + changes_since(resumed.notes, options) +
         complete_text(trainer, options) + '\n';
}

std::string load_weights(const World& world, trainer::Trainer& trainer, const Options& options) {
  const bool is_resumed = !options.resume.empty() && (options.resume != "auto" || trainer.state().global_step > 0);
  if (is_resumed && !options.eval_only) return {};  // the checkpoint has its own
  std::filesystem::path path = options.weights;
  if (options.eval_only && !options.resume.empty()) {
    const Phase phase(world.group(), "looking for the checkpoint", Phase::Kind::work);
    agree_on_rank_zero(world.group(), [&] {
      path = state::find_checkpoint(options.resume, options.checkpoints.folder).path.value() / "model.safetensors";
    });
  } else if (options.weights.empty()) {
    return {};
  }
  const Phase phase(world.group(), "loading weights", Phase::Kind::work);
  if (options.partial_weights) return table_of(path, trainer.load_weights(path, trainer::WeightsMatch::partial));
  try {
    return table_of(path, trainer.load_weights(path));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch) throw;
    throw Error(error.code(), error.message() + " (--partial-weights)", error.context()).on_every_rank();
  }
}

}  // namespace lockstep::train
