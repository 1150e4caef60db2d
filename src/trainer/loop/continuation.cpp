// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/continuation.hpp"

#include <algorithm>
#include <variant>

#include "ddp/rank_zero.hpp"
#include "trainer/checkpoint/checkpoint_reading.hpp"
#include "trainer/checkpoint/resume.hpp"
#include "trainer/loop/evaluator.hpp"
#include "trainer/loop/saver.hpp"
#include "trainer/replica/host_mirror.hpp"

namespace lockstep::trainer {
namespace {

/// Returns the metrics with the values that a checkpoint has of them.
std::vector<observe::MetricValue> with_values_of(const std::vector<observe::MetricValue>& saved,
                                                 std::vector<observe::MetricValue> metrics) {
  for (observe::MetricValue& metric : metrics) metric.value = observe::value_of(saved, metric.name);
  return metrics;
}

}  // namespace

Trainer::Resumed Continuation::resume(const std::string& wish, const std::filesystem::path& folder) {
  OpenedCheckpoint opened = open_checkpoint(run_->group, wish, folder, saver_->fallback());
  Trainer::Resumed resumed{.path = opened.path, .refused = std::move(opened.refused), .notes = {}};
  if (!opened.file) return resumed;
  Replica& replica = run_->replica;
  RunState saved = run_state_of(*opened.file);
  for (const auto& [section, values] : opened.file->sections) {
    for (const auto& [name, value] : values)
      if (const auto* text = std::get_if<std::string>(&value)) resumed.notes[section][name] = *text;
  }
  require_same_run(run_->group, *opened.file, settings_of(replica.store(), run_->options, run_->data.train->size()));
  require_position(saved, opened.file->step, run_->steps_per_epoch());
  resumed.foreign_kernel_choices = use_kernels_of(run_->group, replica, opened.file->words("kernels", "choices"));
  load_tensors(run_->group, opened.path, replica.store());
  take_over(std::move(saved));
  saver_->continue_from(opened.path);
  return resumed;
}

void Continuation::note_completion() {
  RunningStatistics& statistics = run_->replica.store().statistics();
  if (!statistics.remembers()) return;
  statistics.keep_gathered();
  completed_ = run_->state;
  copy_tensors();
}

/// Copies the tensors of a device, where a step that fails may update them: its kernels do not learn of a failure. The
/// copies are ordered before all that is submitted to the device later.
void Continuation::copy_tensors() {
  const std::vector<Buffer> all = tensors();
  const ops::ComputeDevice& device = run_->replica.model().device();
  for (std::size_t i = 0; i < copies_.size(); ++i)
    device.copy(copies_[i].data(), all[i].data, all[i].bytes(), device.queue());
}

std::vector<Buffer> Continuation::tensors() const {
  const Store& store = run_->replica.store();
  std::vector<Buffer> all = store.optimizer_state();
  all.push_back(store.values());
  all.push_back(store.averages());
  all.push_back(store.gradient_sums());
  return all;
}

void Continuation::remember() {
  Replica& replica = run_->replica;
  if (replica.store().is_sharded()) {
    throw Error(
        ErrorCode::unsupported,
        "ranks cannot go on without one that dies, with a sharded optimizer: a rank that dies takes its part along",
        {.rank = run_->group.rank().value, .host = run_->group.host()})
        .on_every_rank();
  }
  replica.store().statistics().remember();
  completed_ = run_->state;
  const ops::ComputeDevice& device = replica.model().device();
  copies_.clear();
  if (device.queue().is_host()) return;
  for (const Buffer& tensor : tensors()) copies_.push_back(device.allocate(tensor.bytes()));
  copy_tensors();
}

RunMemory Continuation::memory() const {
  RunMemory memory{.run = completed_, .tensors = {}, .statistics = run_->replica.store().statistics().remembered()};
  std::vector<Buffer> all = tensors();
  for (std::size_t i = 0; i < copies_.size(); ++i) all[i].data = copies_[i].data();
  for (const Buffer& tensor : all) {
    const HostMirror mirror(run_->replica.model().device(), tensor);
    const auto* begin = static_cast<const std::byte*>(mirror.buffer().data);
    memory.tensors.emplace_back(begin, begin + tensor.bytes().value);
  }
  return memory;
}

void Continuation::go_on_from(const RunMemory& own) {
  ProcessGroup& group = run_->group;
  const std::int64_t completed = 2 * own.run.global_step + (own.run.is_reported ? 1 : 0);
  const std::int64_t most = group.max(completed);
  const Rank source{group.min(completed == most ? group.rank().value : group.size())};
  const bool are_all_equal = group.min(completed) == most;
  const auto share = [&](const Buffer& buffer) {
    if (!are_all_equal) group.broadcast(buffer, source);
  };
  state::StateFile file;
  add_run(own.run, file);
  RunState run = run_state_of(state::StateFile::parse(text_of_rank(group, file.text(), source), "the run's state"));
  std::vector<Buffer> all = tensors();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const HostMirror mirror(run_->replica.model().device(), all[i]);
    std::copy(own.tensors[i].begin(), own.tensors[i].end(), static_cast<std::byte*>(mirror.buffer().data));
    share(mirror.buffer());
    mirror.write_back();
  }
  GatheredStatistics statistics = own.statistics;
  share(statistics.as(run_->replica.model().dtype()));
  share(Buffer(statistics.samples));
  run_->replica.store().statistics().take(statistics);
  take_over(std::move(run));
  remember();
}

/// Continues with the state of another run.
void Continuation::take_over(RunState run) {
  RunState& state = run_->state;
  run.stopped_by = 0;
  // This run's options decide whether there is a loss scale.
  if (state.loss_scale == 0 || run.loss_scale == 0) {
    run.loss_scale = state.loss_scale;
    run.scaled_steps = 0;
  }
  std::vector<std::int64_t> since_best(state.best.size());
  for (std::size_t i = 0; i < since_best.size(); ++i) {
    const std::size_t saved = index_of(run.best, state.best[i].name);
    if (saved < run.best.size()) since_best[i] = run.evaluations_since_best[saved];
  }
  run.evaluations_since_best = std::move(since_best);
  run.evaluation = with_values_of(run.evaluation, evaluator_->metrics());
  run.best = with_values_of(run.best, evaluator_->metrics());
  state = std::move(run);
  run_->replica.start_from(state);
  run_->has_batches = false;
}

}  // namespace lockstep::trainer
