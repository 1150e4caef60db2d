// SPDX-License-Identifier: Apache-2.0
// How the trainer goes on with a run: from a checkpoint, or from the memory of the ranks that are left.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/checkpoints.hpp"
#include "trainer/resume.hpp"
#include "trainer/run_section.hpp"
#include "trainer/trainer_parts.hpp"
#include "trainer/weights.hpp"

namespace lockstep::trainer {
namespace {

/// Returns the metrics with the values that a checkpoint has of them.
std::vector<observe::MetricValue> with_values_of(const std::vector<observe::MetricValue>& saved,
                                                 std::vector<observe::MetricValue> metrics) {
  for (observe::MetricValue& metric : metrics) metric.value = observe::value_of(saved, metric.name);
  return metrics;
}

}  // namespace

LoadedWeights Trainer::load_weights(const std::filesystem::path& path, WeightsMatch match) {
  return trainer::load_weights(*group_, path, replica_.store(), match);
}

Trainer::Resumed Trainer::resume(const std::string& wish, const std::filesystem::path& folder) {
  Resumed resumed;
  const auto fallback = checkpoints_ ? checkpoints_->options().fallback : std::filesystem::path();
  const auto opened = open_checkpoint(*group_, wish, folder, fallback, resumed.refused);
  if (!opened) return resumed;
  RunState run = run_state_of(opened->file);
  for (const auto& [section, values] : opened->file.sections) {
    for (const auto& [name, value] : values)
      if (const auto* text = std::get_if<std::string>(&value)) resumed.notes[section][name] = *text;
  }
  require_same_run(*group_, opened->file, settings_of(replica_.store(), options_, data_.train->size()));
  require_position(run, opened->file.step, steps_per_epoch());
  resumed.foreign_kernel_choices = replica_.compute_as(opened->file.words("kernels", "choices"));
  load_tensors(*group_, opened->path, replica_.store());
  take_over(std::move(run));
  if (checkpoints_) on_rank_zero(*group_, [&] { checkpoints_->continue_from(opened->path, state_.global_step); });
  resumed.path = opened->path;
  return resumed;
}

/// Notes that all of a step, or of an evaluation, is done. Nothing between the update of a step and this call waits for
/// other ranks, so what a rank has completed it has as a whole.
void Trainer::complete() {
  if (!replica_.store().remembers()) return;
  replica_.store().keep_gathered();
  completed_ = state_;
}

std::vector<Buffer> Trainer::tensors() const {
  const Store& store = replica_.store();
  std::vector<Buffer> all = store.optimizer_state();
  all.push_back(store.values());
  all.push_back(store.averages());
  return all;
}

void Trainer::remember() {
  const std::string what = replica_.store().is_sharded() ? "a sharded optimizer: a rank that dies takes its part along"
                           : !replica_.model().device().queue().is_host() ? "operators on a GPU: NCCL's ranks are fixed"
                                                                          : "";
  if (!what.empty()) {
    throw Error(ErrorCode::unsupported, "ranks cannot go on without one that dies, with " + what,
                {.rank = group_->rank().value, .host = group_->host()})
        .on_every_rank();
  }
  replica_.store().remember_statistics();
  completed_ = state_;
}

RunMemory Trainer::memory() {
  if (checkpoints_) checkpoints_->finish();
  RunMemory memory{.run = completed_, .tensors = {}, .statistics = replica_.store().remembered().copy()};
  for (const Buffer& tensor : tensors()) {
    const auto* begin = static_cast<const std::byte*>(tensor.data);
    memory.tensors.emplace_back(begin, begin + tensor.bytes().value);
  }
  memory.saves_heard = saves_heard_;
  return memory;
}

void Trainer::go_on_from(const RunMemory& own) {
  const std::int64_t completed = 2 * own.run.global_step + (own.run.is_reported ? 1 : 0);
  const std::int64_t most = group_->max(completed);
  const Rank source{group_->min(completed == most ? group_->rank().value : group_->size())};
  const bool is_everybody_there = group_->min(completed) == most;
  const auto share = [&](const Buffer& buffer) {
    if (!is_everybody_there) group_->broadcast(buffer, source);
  };
  state::StateFile file;
  add_run(own.run, file);
  RunState run = run_state_of(state::StateFile::parse(text_of_rank(*group_, file.text(), source), "the run's state"));
  std::vector<Buffer> all = tensors();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::copy(own.tensors[i].begin(), own.tensors[i].end(), static_cast<std::byte*>(all[i].data));
    share(all[i]);
  }
  Store::AllStatistics statistics = own.statistics.copy();
  share(statistics.parts);
  share(Buffer(statistics.samples.data(), {std::ssize(statistics.samples)}, DType::int64));
  replica_.store().take_statistics(statistics);
  take_over(std::move(run));
  saves_heard_ = own.saves_heard;
  remember();
  if (!checkpoints_ || state_.global_step == 0) return;
  if (!state_.is_reported) return save_after_step();
  save_after_epoch(state_.evaluation[best_metric()].value && state_.evaluations_since_best[best_metric()] == 0);
}

/// Continues with the state of another run.
void Trainer::take_over(RunState run) {
  run.stopped_by = 0;
  // This run's options decide whether there is a loss scale.
  if (state_.loss_scale == 0 || run.loss_scale == 0) {
    run.loss_scale = state_.loss_scale;
    run.scaled_steps = 0;
  }
  std::vector<std::int64_t> since_best(state_.best.size());
  for (std::size_t i = 0; i < since_best.size(); ++i) {
    const std::size_t saved = index_of(run.best, state_.best[i].name);
    if (saved < run.best.size()) since_best[i] = run.evaluations_since_best[saved];
  }
  run.evaluations_since_best = std::move(since_best);
  run.evaluation = with_values_of(run.evaluation, metrics());
  run.best = with_values_of(run.best, metrics());
  state_ = std::move(run);
  replica_.start_from(state_);
  entered_ = false;
}

}  // namespace lockstep::trainer
