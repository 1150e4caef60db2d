// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/run_folder.hpp"

#include "apps/cli/command_line.hpp"
#include "apps/cli/version.hpp"
#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/file.hpp"
#include "state/verify.hpp"

namespace lockstep::train {
namespace {

/// Makes the folder of the run, on rank 0. @return its path on every rank; `no_save_dir` if it is the default folder,
/// and it cannot be made
std::string make_run_folder(const World& world, const Options& options, const Console& console) {
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
      console.notice("nothing is saved: " + error.message());
      folder = no_save_dir;
    }
  });
  return broadcast_string(world.group(), folder, {0});
}

/// Writes the options of the run to a file that --config reads. @throws Error{io} on every rank
void write_options(const World& world, const Options& options, const RunFolder& folder) {
  if (continues_in_folder(options) && options.resume != "auto") return;  // they are there
  const Phase phase(world.group(), "writing the options of the run", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    // A file that a crash or a full disk cuts would resume the run with other options.
    SharedTextFile((folder.checkpoints / "options.conf").string()).update([&](const auto&) {
      return "# Repeats the run: " + options.program +
             " --config FILE\n# Continues it, by these options: " + options.program + " --save-dir DIR --resume\n" +
             options.configuration;
    });
  });
}

/// Says which hosts do not see the folder that rank 0 has made. Nothing else depends on it, because rank 0 writes and
/// reads all files.
void notice_hosts_without(const World& world, const std::string& folder, const Console& console) {
  const Phase phase(world.group(), "looking for the folder of the run");
  const std::vector<std::int64_t> seen =
      all_gather_numbers(world.group(), std::filesystem::is_directory(folder) ? 1 : 0);
  std::string hosts;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    const std::string& host = world.group().host_of({static_cast<int>(rank)});
    if (seen[rank] == 0 && hosts.find(host) == std::string::npos) hosts += (hosts.empty() ? "" : ", ") + host;
  }
  if (hosts.empty() || world.rank() != Rank{0}) return;
  console.notice("the folder '" + folder + "' is on " + world.host() +
                 ", the host of rank 0, which writes and reads it; " + hosts + " sees no such folder");
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

}  // namespace

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
    run.text = read_text(file.string(), cli::most_configuration_bytes);
    run.path = file.string();
  });
  run.path = broadcast_string(world.group(), run.path, {0});
  run.text = broadcast_string(world.group(), run.text, {0});
  return run;
}

RunFolder open_run_folder(const Cluster& cluster, const Options& options, const Console& console) {
  const World& world = cluster.world;
  const bool in_this_folder = options.tensorboard == in_run_folder;
  RunFolder folder{.metrics = cluster.metrics, .trace = cluster.trace};
  if (!options.eval_only && !in_this_folder) folder.tensorboard = options.tensorboard;
  if (options.eval_only) folder.checkpoints = options.save_dir;
  if (options.eval_only || options.save_dir == no_save_dir) return folder;
  folder.path = make_run_folder(world, options, console);
  if (folder.path == no_save_dir) return folder;
  folder.checkpoints = folder.path;
  if (folder.metrics.empty()) folder.metrics = folder.checkpoints / "metrics.jsonl";
  if (in_this_folder) folder.tensorboard = folder.checkpoints;
  write_options(world, options, folder);
  notice_hosts_without(world, folder.path, console);
  return folder;
}

RunFiles open_files(const World& world, const RunFolder& folder) {
  RunFiles files;
  const Phase phase(world.group(), "opening the files to write", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    if (!folder.metrics.empty()) files.reports.metrics.emplace(folder.metrics);
    if (!folder.tensorboard.empty()) files.reports.tensorboard.emplace(folder.tensorboard);
    if (!folder.trace.empty()) files.trace.emplace(folder.trace);
  });
  return files;
}

trainer::CheckpointOptions checkpoint_options(const Options& options, const RunFolder& folder, const ops::Ops& ops,
                                              const nn::ModelDescription& model) {
  trainer::CheckpointOptions checkpoints = options.checkpoints;
  checkpoints.folder = folder.checkpoints;
  checkpoints.metadata = nn::to_metadata(model);
  checkpoints.notes["program"] = {{"commit", cli::commit()}, {"arithmetic", ops.arithmetic()}};
  for (const auto& [library, version] : cli::library_versions()) checkpoints.notes["libraries"][library] = version;
  for (const Term& option : options.settings) checkpoints.notes["options"][option.name] = option.value;
  return checkpoints;
}

}  // namespace lockstep::train
