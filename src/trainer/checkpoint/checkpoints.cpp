// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoints.hpp"

#include <array>
#include <chrono>
#include <exception>
#include <iterator>
#include <system_error>

#include "base/seconds_since.hpp"
#include "ddp/rank_zero.hpp"
#include "trainer/checkpoint/resume.hpp"
#include "trainer/replica/host_mirror.hpp"

namespace lockstep::trainer {
namespace {

/// The head of a message with a part: file, tensor, first element and number of elements. A negative file ends them.
using PartHead = std::array<std::int64_t, 4>;

observe::CheckpointEvent failed(observe::CheckpointEvent event, const std::string& why, bool tries_elsewhere = false) {
  event.error = why;
  event.tries_elsewhere = tries_elsewhere;
  return event;
}

}  // namespace

Checkpoints::Checkpoints(ProcessGroup& group, CheckpointOptions options, Listener& listener)
    : group_(&group), options_(std::move(options)), listener_(&listener) {
  if (options_.epochs < 0 || options_.steps < 0 || options_.keep < 1) {
    throw Error(ErrorCode::invalid_argument, "checkpoints every " + std::to_string(options_.epochs) + " epochs and " +
                                                 std::to_string(options_.steps) + " steps, of which " +
                                                 std::to_string(options_.keep) +
                                                 " stay: give intervals that are not negative, and keep at least 1")
        .on_every_rank();
  }
  on_rank_zero(group, [&] {
    folder_.emplace(options_.folder);
    if (!options_.fallback.empty()) fallback_.emplace(options_.fallback);
  });
}

Checkpoints::~Checkpoints() {
  if (writing_.valid()) writing_.wait();
}

void Checkpoints::save(Store& store, const RunState& run, state::StateFile file, bool is_best) {
  const Clock::time_point begin = Clock::now();
  finish();  // one at a time
  GatheredStatistics all = store.statistics().gather();
  CheckpointLayout layout(store, std::ssize(all.samples), options_.metadata);
  if (group_->rank() != 0) return send(store, layout);
  for (const auto& [section, texts] : options_.notes)
    for (const auto& [name, text] : texts) file.sections[section][name] = text;
  add_run(run, file);
  const observe::CheckpointEvent event{.epoch = run.epoch, .step = run.global_step};
  Job job = new_job(event, layout);
  if (store.is_sharded()) receive(event, job, layout);
  if (!job) return;
  GatheredStatistics averaged = all;
  std::vector<StoredPart> parts;
  layout.add_own(parts, store, false);
  layout.add_constants(parts, store);
  layout.add_statistics(parts, store, all);
  layout.add_average(parts, store, store.statistics().average_of(averaged));
  job->stage(std::move(parts), store.model().device(), std::move(file), is_best);
  writing_ =
      std::async(std::launch::async, [this, event, stall = seconds_since(begin), job = std::move(job)]() mutable {
        return write(event, stall, std::move(job));
      });
}

/// Begins a checkpoint in the run's folder or, if that fails, in the other one. Reports what fails.
/// @return null if there is none
Checkpoints::Job Checkpoints::new_job(const observe::CheckpointEvent& begun, const CheckpointLayout& layout) {
  for (std::optional<state::CheckpointFolder>* folder : {&folder_, &fallback_}) {
    if (!*folder) continue;
    try {
      return std::make_unique<CheckpointJob>(**folder, begun.step, layout);
    } catch (const Error& error) {
      report(failed(begun, error.message(), folder == &folder_ && fallback_));
    }
  }
  return nullptr;
}

/// Begins a checkpoint anew in the other folder. @return null if there is none. @throws Error
Checkpoints::Job Checkpoints::moved_to_fallback(CheckpointJob& failed) {
  return can_move(failed) ? failed.moved_to(*fallback_) : nullptr;
}

void Checkpoints::report(const observe::CheckpointEvent& event) {
  if (!event.path.empty()) newest_ = event;
  listener_->checkpoint(event);
}

/// Runs on a thread of its own. @return the events, in their order
std::vector<observe::CheckpointEvent> Checkpoints::write(const observe::CheckpointEvent& begun, double stall, Job job) {
  std::vector<observe::CheckpointEvent> events;
  while (job) {
    const Clock::time_point begin = Clock::now();
    observe::CheckpointEvent event = begun;
    event.stall_seconds = stall;
    try {
      job->commit(options_.keep);
    } catch (const Error& error) {
      event.error = error.message();
    } catch (const std::exception& error) {
      event.error = error.what();
    }
    event.path = job->path();  // also if no link could name it, or no older one be removed
    if (!event.path.empty()) event.bytes = job->bytes();
    event.tries_elsewhere = event.path.empty() && can_move(*job);
    event.write_seconds = seconds_since(begin);
    events.push_back(event);
    if (!event.path.empty()) break;
    try {
      job = moved_to_fallback(*job);
    } catch (const Error& error) {
      events.push_back(failed(begun, error.message()));
      break;
    }
  }
  return events;
}

void Checkpoints::send(const Store& store, const CheckpointLayout& layout) {
  if (!store.is_sharded()) return;
  Communicator& communicator = group_->control();
  std::vector<StoredPart> own;
  layout.add_own(own, store, false);
  for (const StoredPart& part : own) {
    PartHead head{static_cast<std::int64_t>(part.file), part.tensor, part.first.value, part.elements.count.value};
    communicator.send(Buffer(head), {0}, Queue::host(), "checkpoint").wait();
    const HostMirror elements(store.model().device(), part.elements);
    communicator.send(elements.buffer(), {0}, Queue::host(), "checkpoint").wait();
  }
  PartHead end{-1};
  communicator.send(Buffer(end), {0}, Queue::host(), "checkpoint").wait();
}

/// Writes the parts of the other ranks, in their order, and receives them even if there is trouble.
/// @param job  null if nothing is to be written; it becomes another one, or null, if writing fails
void Checkpoints::receive(const observe::CheckpointEvent& begun, Job& job, const CheckpointLayout& layout) {
  Communicator& communicator = group_->control();
  std::vector<std::byte> memory;
  const auto write = [&](const StoredPart& part) {
    while (job) {
      try {
        return job->write_received(part);
      } catch (const Error& error) {
        report(failed(begun, error.message(), can_move(*job)));
      }
      try {
        job = moved_to_fallback(*job);
      } catch (const Error& error) {
        report(failed(begun, error.message()));
        job = nullptr;
      }
    }
  };
  for (int rank = 1; rank < group_->size(); ++rank) {
    PartHead head{};
    while (communicator.recv(Buffer(head), {rank}, Queue::host(), "checkpoint").wait(), head[0] >= 0) {
      StoredPart part{static_cast<CheckpointFile>(head[0]), static_cast<int>(head[1]), {head[2]}, {}};
      const DType dtype = layout.tensor(part).dtype;
      memory.resize(static_cast<std::size_t>(head[3] * size_of(dtype)));
      part.elements = {memory.data(), {head[3]}, dtype};
      communicator.recv(part.elements, {rank}, Queue::host(), "checkpoint").wait();
      write(part);
    }
  }
}

void Checkpoints::poll() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void Checkpoints::finish() {
  if (!writing_.valid()) return;
  for (const observe::CheckpointEvent& event : writing_.get()) report(event);
}

bool Checkpoints::has(std::int64_t step) const {
  std::error_code error;
  std::uint8_t is_there =
      newest_.step == step &&
              std::filesystem::exists(std::filesystem::path(newest_.path) / state::state_file_name, error)
          ? 1
          : 0;
  group_->control().broadcast(std::span(&is_there, 1), {0}, Queue::host(), "checkpoint").wait();
  return is_there != 0;
}

void Checkpoints::continue_from(const std::filesystem::path& checkpoint, std::int64_t step) {
  if (!folder_) return;
  newest_ = {.step = step, .path = checkpoint.string()};
  std::error_code error;
  if (!std::filesystem::equivalent(checkpoint.parent_path(), folder_->path(), error)) return;
  folder_->continue_from(step);
}

}  // namespace lockstep::trainer
