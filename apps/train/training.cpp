// SPDX-License-Identifier: Apache-2.0
#include "apps/train/training.hpp"

#include <chrono>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/train/checksum.hpp"
#include "apps/train/stop_signals.hpp"
#include "apps/train/texts.hpp"
#include "lockstep/base/error.hpp"
#include "trainer/host_view.hpp"

namespace lockstep::train {
namespace {

/// Returns a path as a word for a shell.
std::string word_for_shell(const std::string& path) {
  const bool is_plain =
      path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=") ==
      std::string::npos;
  if (is_plain) return path;
  std::string word = "'";
  for (const char character : path) word += character == '\'' ? "'\\''" : std::string(1, character);
  return word + '\'';
}

/// Says how a run that was stopped goes on from its last checkpoint, which --save-fallback may have got.
std::string how_to_continue(const Options& options, const std::string& checkpoint) {
  const bool is_in_folder = checkpoint.starts_with((options.checkpoints.folder / "checkpoints").string());
  return is_in_folder ? "to continue, with the options of this run: --save-dir " + word_for_shell(options.save_dir) +
                            " --resume\n"
                      : "to continue: the same options with --resume " + word_for_shell(checkpoint) + '\n';
}

/// Closes the group after an error that all ranks throw, so that no rank mistakes one that left first for the cause.
void close_in_order(ProcessGroup& group) {
  try {
    group.close();
  } catch (const Error&) {  // the error under way says more
  }
}

}  // namespace

std::string weights_sha256(const trainer::Replica& replica) {
  const trainer::HostView values(replica.model().device(), replica.data_parallel().values());
  return sha256(replica.data_parallel().layout(), values.buffer());
}

std::vector<observe::MetricValue> results_of_weights(const trainer::Trainer& trainer) {
  const trainer::RunState& run = trainer.state();
  return run.evaluated_step == run.global_step ? run.evaluation : trainer.metrics();
}

observe::EndEvent end_event(const trainer::Trainer& trainer, const std::string& weights, double seconds,
                            std::int64_t steps) {
  const trainer::RunState& run = trainer.state();
  const bool is_signal = run.stopped_by != 0 && run.stopped_by != trainer::stopped_by_time;
  const char* outcome = trainer.stops_early() ? "early-stopped" : "completed";
  return {.outcome = run.stopped_by == 0 ? outcome : "stopped",
          .signal = is_signal ? signal_name(run.stopped_by) : "",
          .epochs = trainer.completed_epochs(),
          .steps = run.global_step,
          .steps_of_start = steps,
          .seconds = seconds,
          .best = run.best,
          .last = results_of_weights(trainer),
          .evaluated_step = run.evaluated_step,
          .skipped_updates = run.skipped,
          .optimizer_bytes = trainer.replica().store().optimizer_bytes().value,
          .weights_sha256 = weights};
}

Training::Training(const Options& options, Voice& voice, std::unique_ptr<ProcessGroup> group,
                   std::unique_ptr<trainer::Trainer> trainer)
    : options_(options),
      voice_(voice),
      group_(std::move(group)),
      trainer_(std::move(trainer)),
      first_step_(trainer_->state().global_step) {}

template <typename Work>
void Training::record_failure_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    record_failure(error.what());
    if (error.is_on_every_rank() && group_ != nullptr) close_in_order(*group_);
    throw;
  } catch (const std::exception& error) {
    record_failure(error.what());
    throw;
  }
}

void Training::record_failure(const char* cause) {
  if (voice_.reporter() == nullptr) return;
  observe::EndEvent event;
  if (trainer_ != nullptr) {
    event = end_event(*trainer_, "", seconds(), steps());
  } else if (memory_) {  // the failure of making a trainer for the ranks that are left
    event.steps = memory_->run.global_step;
    event.steps_of_start = event.steps - first_step_;
    event.seconds = seconds();
    event.best = memory_->run.best;
  }
  event.outcome = "failed";
  event.signal.clear();
  event.error = cause;
  voice_.reporter()->end(event);
}

void Training::run() {
  record_failure_of([this] { run_to_end(); });
}

void Training::run_elastic(World& world, const observe::RunLength& length, const Remake& remake) {
  record_failure_of([&] {
    trainer_->remember();
    world.run_elastic([&](const std::vector<LostRank>& lost) {
      try {
        if (!lost.empty()) go_on_without(lost, world, remake);
        if (Reporter* reporter = voice_.reporter(); reporter != nullptr && !dead_.empty()) {
          reporter->recovered({.step = trainer_->state().global_step,
                               .ranks = dead_,
                               .left = world.size(),
                               .seconds = std::chrono::duration<double>(Clock::now() - failed_at_).count()},
                              length);
        }
        dead_.clear();
        run_to_end();
      } catch (const Error&) {
        if (dead_.empty()) failed_at_ = Clock::now();
        throw;
      }
    });
  });
}

void Training::run_to_end() {
  result_ = trainer_->run();
  report_end();
  group_->close();
}

void Training::report_end() {
  Reporter* reporter = voice_.reporter();
  if (reporter == nullptr) return;
  reporter->print(summary_text(options_, *trainer_, seconds(), steps(), recoveries_, reporter->lost_metrics()));
  if (trainer_->is_saved() && !reporter->last_checkpoint().empty()) {
    reporter->print("model: " + reporter->last_checkpoint() + '\n');
    if (result_.stopped_by != 0) reporter->print(how_to_continue(options_, reporter->last_checkpoint()));
  }
  reporter->phase("computing the checksum of the weights");
  const std::string weights = weights_sha256(trainer_->replica());
  reporter->end(end_event(*trainer_, weights, seconds(), steps()));
  reporter->print("weights sha256 " + weights + '\n');
}

int Training::exit_code() const {
  if (!trainer_->is_saved()) return exit_not_saved;
  return result_.stopped_by == 0 ? exit_success : exit_stopped;
}

std::string Training::not_saved_text() const {
  Reporter* reporter = voice_.reporter();
  if (trainer_->is_saved() || reporter == nullptr) return {};
  const std::string& last = reporter->last_checkpoint();
  const std::string why = !reporter->last_failure().empty() ? reporter->last_failure() : last + " has been removed";
  std::error_code error;
  const bool is_there = !last.empty() && std::filesystem::exists(std::filesystem::path(last) / "state.json", error);
  return "not saved: no checkpoint has the state after step " + std::to_string(result_.global_step) + ": " + why +
         (is_there ? ". The newest one is " + last : ". This start has saved none") + '\n';
}

/// Makes all that belongs to the ranks anew. If more ranks die meanwhile, it is called again, with what was remembered
/// at first.
void Training::go_on_without(const std::vector<LostRank>& lost, const World& world, const Remake& remake) {
  for (const LostRank& rank : lost) dead_.push_back({rank.rank, rank.host});
  if (world.size() < options_.min_ranks) {
    throw Error(ErrorCode::unsupported,
                "after the death of rank " + std::to_string(dead_.back().rank) + " on " + dead_.back().host + ", " +
                    std::to_string(world.size()) + " ranks are left, and --min-ranks asks for " +
                    std::to_string(options_.min_ranks) + ": start again, with --resume where there is a checkpoint",
                {.rank = world.rank().value, .host = world.host()})
        .on_every_rank();
  }
  if (!memory_) memory_ = trainer_->memory();
  if (group_ != nullptr) group_->progress().poll();  // operations that are under way hear that the group has failed
  trainer_.reset();
  group_.reset();
  group_ = remake.group();
  trainer_ = remake.trainer(*group_);
  trainer_->go_on_from(*memory_);
  memory_.reset();
  ++recoveries_;
}

}  // namespace lockstep::train
