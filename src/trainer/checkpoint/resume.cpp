// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/resume.hpp"

#include <cinttypes>
#include <cmath>
#include <type_traits>
#include <variant>

#include "base/wrapped.hpp"
#include "ddp/rank_zero.hpp"

namespace lockstep::trainer {
namespace {

constexpr const char* run_section = "run";
constexpr const char* evaluation_section = "evaluation";
constexpr const char* best_section = "best";
constexpr const char* evaluated_step_key = "evaluated_step";
constexpr const char* deferred_key = "deferred";
constexpr const char* pending_steps_key = "pending_steps";
constexpr const char* since_best_section = "evaluations_since_best";

/// Calls `take` with the name of each number and the number.
template <typename Run, typename Take>
void for_each_number(Run& run, const Take& take) {
  take("epoch", run.epoch);
  take("step", run.step);
  take("global_step", run.global_step);
  take("skipped", run.skipped);
  take("loss_scale", run.loss_scale);
  take("scaled_steps", run.scaled_steps);
  take("last_loss", run.last_loss);
  take("epoch_loss_sum", run.epoch_loss_sum);
  take("epoch_samples", run.epoch_samples);
}

/// @throws Error{corrupt} on every rank that names the key
void require_in_range(bool is_in_range, const std::string& key) {
  if (is_in_range) return;
  throw Error(ErrorCode::corrupt, "in the checkpoint's state.json, \"" + std::string(run_section) + "\".\"" + key +
                                      "\" is out of range; resume from another checkpoint")
      .on_every_rank();
}

/// Describes the settings that differ; empty if none does. Hashes, which follow from others, are named only if nothing
/// else differs.
std::string difference(const state::StateFile::Section& saved, const std::vector<RunSetting>& own) {
  std::string differences;
  std::string derived;
  for (const auto& [name, value, older] : own) {
    const auto found = saved.find(name);
    const std::string* text = found == saved.end() ? nullptr : std::get_if<std::string>(&found->second);
    const std::string other = text == nullptr ? "nothing" : *text;
    if (other == value || (!older.empty() && other == older)) continue;
    std::string& list = name == "parameters" || name == "statistics" ? derived : differences;
    list += (list.empty() ? "" : "; ") + name + " " + other + ", this run " + value;
  }
  return differences.empty() ? derived : differences;
}

}  // namespace

std::vector<RunSetting> settings_of(const Store& store, const TrainerOptions& options, std::int64_t training_samples) {
  const nn::Model& model = store.model();
  const auto yes_or_no = [](bool is_so) { return is_so ? "yes" : "no"; };
  const bool averages_statistics = store.has_averages() && options.step.ema_statistics;
  std::vector<RunSetting> settings{
      {"model", model.graph().name() + options.model_variant},
      {"optimizer", std::string(nn::name(store.rule()))},
      {"precision", std::string(name(model.values()))},
      {"parameters", format_text("%" PRIx64, model.parameters().hash())},
      {"statistics", format_text("%" PRIx64, model.state().hash())},
      {"ema", averages_statistics ? "of weights and statistics" : yes_or_no(store.has_averages())},
      {"training samples", std::to_string(training_samples)},
      {"batch", std::to_string(options.batch.value)},
      {"drop-last", yes_or_no(options.drop_last)},
      {"seed", std::to_string(options.seed)},
      {"shards", std::to_string(options.step.shards)}};
  for (const nn::Constant& constant : model.graph().constants()) {
    std::string numbers;
    for (const double value : constant.values) numbers += (numbers.empty() ? "" : " ") + format_text("%.9g", value);
    settings.push_back({constant.name, std::move(numbers)});
  }
  if (!options.data_fingerprint.empty())
    settings.push_back({"data set", options.data_fingerprint, options.older_data_fingerprint});
  return settings;
}

void require_same_run(ProcessGroup& group, const state::StateFile& checkpoint, const std::vector<RunSetting>& own) {
  const auto saved = checkpoint.sections.find(settings_section);
  const std::string different =
      difference(saved == checkpoint.sections.end() ? state::StateFile::Section{} : saved->second, own);
  require_no_obstacle(group, different.empty() ? "" : "has " + different);
}

std::size_t use_kernels_of(ProcessGroup& group, Replica& replica, const std::string& choices) {
  const ops::KernelChoices before = replica.model().choices();
  std::size_t of_others = 0;
  std::string obstacle;
  try {
    const auto all = ops::KernelChoices::parse(choices, "the checkpoint's kernel choices");
    const ops::KernelChoices own = all.of(replica.model().library());
    of_others = all.size() - own.size();
    // Choices of another library say nothing about this one's kernels, so this run's own stay.
    if (of_others == 0 || !own.empty()) replica.use(own);
  } catch (const Error& error) {
    obstacle = "was computed by algorithms that cannot be had there: " + error.message();
  }
  try {
    require_no_obstacle(group, obstacle);
  } catch (...) {
    replica.use(before);
    throw;
  }
  return of_others;
}

Obstacle gather_obstacle(ProcessGroup& group, const std::string& own) {
  const auto all = gather_values<std::uint8_t>(group, own.empty() ? 0 : 1, "checkpoint");
  Obstacle found;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != 0) found.ranks.push_back(static_cast<int>(rank));
  if (!found.ranks.empty()) found.first = text_of_rank(group, own, {found.ranks.front()});
  return found;
}

void require_no_obstacle(ProcessGroup& group, const std::string& obstacle) {
  const Obstacle found = gather_obstacle(group, obstacle);
  if (found.ranks.empty()) return;
  throw Error(ErrorCode::mismatch,
              "this run cannot go on from rank 0's checkpoint, which " + found.first +
                  ". Nothing was changed; give the options of the run that saved it",
              {.operation = "resume", .rank = group.rank().value, .host = group.host(), .peers = found.ranks})
      .on_every_rank();
}

void add_run(const RunState& run, state::StateFile& file) {
  state::StateFile::Section& section = file.sections[run_section];
  for_each_number(run, [&](const char* name, auto number) { section[name] = number; });
  section["is_reported"] = std::int64_t{run.is_reported};
  section[evaluated_step_key] = run.evaluated_step;
  // Runs in which each step makes an update do not have them.
  for (const auto& [name, number] : {std::pair(deferred_key, run.deferred), {pending_steps_key, run.pending_steps}})
    if (number != 0) section[name] = number;
  for (const auto& [name, metrics] : {std::pair(evaluation_section, &run.evaluation), {best_section, &run.best}})
    for (const observe::MetricValue& metric : *metrics)
      if (metric.value) file.sections[name][metric.name] = *metric.value;
  for (std::size_t i = 0; i < run.best.size(); ++i)
    if (run.best[i].value) file.sections[since_best_section][run.best[i].name] = run.evaluations_since_best[i];
}

RunState run_state_of(const state::StateFile& file) {
  RunState run;
  for_each_number(run, [&](const char* name, auto& number) {
    if constexpr (std::is_same_v<std::decay_t<decltype(number)>, double>) {
      number = file.real(run_section, name);
    } else {
      number = file.integer(run_section, name);
    }
  });
  require_in_range(run.epoch >= 1, "epoch");
  require_in_range(run.skipped >= 0 && run.skipped <= run.global_step, "skipped");
  require_in_range(run.loss_scale >= 0 && std::isfinite(run.loss_scale), "loss_scale");
  require_in_range(run.scaled_steps >= 0, "scaled_steps");
  require_in_range(run.epoch_samples >= 0, "epoch_samples");
  run.is_reported = file.integer(run_section, "is_reported") != 0;
  // Older files lack it.
  if (file.sections.at(run_section).contains(evaluated_step_key))
    run.evaluated_step = file.integer(run_section, evaluated_step_key);
  for (const auto& [name, number] : {std::pair(deferred_key, &run.deferred), {pending_steps_key, &run.pending_steps}}) {
    if (file.sections.at(run_section).contains(name)) *number = file.integer(run_section, name);
    require_in_range(*number >= 0 && *number <= run.global_step, name);
  }
  require_in_range(run.skipped + run.deferred <= run.global_step, deferred_key);
  require_in_range(run.evaluated_step >= 0 && run.evaluated_step <= run.global_step, evaluated_step_key);
  for (const auto& [name, metrics] : {std::pair(evaluation_section, &run.evaluation), {best_section, &run.best}}) {
    const auto section = file.sections.find(name);
    if (section == file.sections.end()) continue;
    for (const auto& [metric, value] : section->second) metrics->push_back({metric, file.real(name, metric)});
  }
  for (const observe::MetricValue& metric : run.best)
    run.evaluations_since_best.push_back(file.integer(since_best_section, metric.name));
  return run;
}

void require_position(const RunState& run, std::int64_t step, std::int64_t steps_per_epoch) {
  require_in_range(run.global_step == step, "global_step");
  require_in_range(run.step >= 0 && run.step <= steps_per_epoch, "step");
  const std::int64_t before = step - run.step;  // steps of completed epochs
  require_in_range(before % steps_per_epoch == 0, "step");
  require_in_range(before / steps_per_epoch == run.epoch - 1, "epoch");
}

}  // namespace lockstep::trainer
