// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoints.hpp"

#include <array>
#include <cstring>
#include <exception>
#include <span>
#include <system_error>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"
#include "trainer/resume.hpp"
#include "trainer/run_section.hpp"
#include "trainer/shard_statistics.hpp"

namespace lockstep::trainer {
namespace {

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Copies parts into memory of the host that nobody changes.
struct StagedParts {
  StagedParts(const std::vector<StoredPart>& from, const ops::ComputeDevice& device) : parts(from) {
    std::int64_t bytes = 0;
    for (const StoredPart& part : from) bytes += rounded_up(part);
    memory = device.allocate_staging({bytes});
    auto* at = static_cast<std::byte*>(memory.data());
    for (StoredPart& part : parts) {
      device.copy(at, part.elements.data, part.elements.bytes(), device.queue());
      part.elements = {at, part.elements.count, part.elements.dtype};
      at += rounded_up(part);
    }
    device.wait(device.queue());
  }
  Allocation memory;
  std::vector<StoredPart> parts;

 private:
  static std::int64_t rounded_up(const StoredPart& part) { return (part.elements.bytes().value + 63) / 64 * 64; }
};

/// The head of a message with a part: file, tensor, first element and number of elements. A negative file ends them.
using PartHead = std::array<std::int64_t, 4>;

}  // namespace

/// A checkpoint while it is written.
struct Checkpoints::Job {
  Job(state::CheckpointFolder& folder_in, std::int64_t step_in, CheckpointLayout layout_in)
      : folder(&folder_in), checkpoint(folder_in, step_in), layout(std::move(layout_in)), step(step_in) {
    for (const CheckpointFile file : {CheckpointFile::model, CheckpointFile::optimizer}) {
      const auto path = checkpoint.path() / checkpoint_files[static_cast<std::size_t>(file)];
      state::SafetensorsWriter::create(path, layout.header(file));
      writers.emplace_back(path, layout.header(file));
    }
  }
  void write(const StoredPart& part) {
    const auto i = static_cast<std::size_t>(part.file);
    written[i].push_back(writers[i].write(part.tensor, part.first, part.elements));
  }
  /// Writes a part of another rank.
  void write_received(StoredPart part) {
    write(part);
    part.elements.data = nullptr;
    received.push_back(part);
  }
  /// Writes the parts of other ranks that are in the files of a job that failed.
  void copy_received(const Job& failed) {
    std::vector<std::byte> memory;
    for (StoredPart part : failed.received) {
      const auto file = static_cast<std::size_t>(part.file);
      const state::SafetensorsReader from(failed.checkpoint.path() / checkpoint_files[file]);
      memory.resize(static_cast<std::size_t>(part.elements.bytes().value));
      part.elements.data = memory.data();
      from.read(from.index_of(layout.header(part.file).tensors()[static_cast<std::size_t>(part.tensor)].name),
                part.first, part.elements);
      write_received(part);
    }
  }

  state::CheckpointFolder* folder;
  state::NewCheckpoint checkpoint;
  CheckpointLayout layout;
  std::vector<state::SafetensorsWriter> writers;
  std::array<std::vector<state::WrittenPart>, 2> written;
  std::vector<StoredPart> received;  // of other ranks; their elements are in the files only
  std::optional<StagedParts> staged;
  state::StateFile content;  // of state.json
  std::int64_t step;
  bool is_best = false;
};

Checkpoints::Checkpoints(ProcessGroup& group, CheckpointOptions options, Listener* listener)
    : group_(&group), options_(std::move(options)), listener_(listener) {
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
  last_step_ = run.global_step;
  Store::AllStatistics all = store.gather_statistics();
  CheckpointLayout layout(store, std::ssize(all.samples));
  if (group_->rank() != 0) return send(store, layout);
  for (const auto& [section, texts] : options_.notes)
    for (const auto& [name, text] : texts) file.sections[section][name] = text;
  add_run(run, file);
  const observe::CheckpointEvent event{.epoch = run.epoch, .step = run.global_step};
  std::unique_ptr<Job> job = new_job(event, layout);
  if (store.is_sharded()) receive(event, job, layout);
  if (!job) return;
  std::vector<StoredPart> parts = layout.parts_of(store, false);
  const std::vector<StoredPart> statistics = layout.parts_of(store, all);
  parts.insert(parts.end(), statistics.begin(), statistics.end());
  std::vector<std::byte> copy = all.memory;  // averaging overwrites
  const Buffer copied{copy.data(), all.parts.count, all.parts.dtype};
  average_parts(copied, all.samples);
  const std::vector<StoredPart> averaged = layout.average_of(store, slice(copied, {0}, store.statistics(0).count));
  parts.insert(parts.end(), averaged.begin(), averaged.end());
  job->staged.emplace(parts, store.model().device());
  job->content = std::move(file);
  job->is_best = is_best;
  writing_ =
      std::async(std::launch::async, [this, event, stall = seconds_between(begin, Clock::now()),
                                      job = std::move(job)]() mutable { return write(event, stall, std::move(job)); });
}

/// Begins a checkpoint in the run's folder or, if that fails, in the other one. Reports what fails.
/// @return null if there is none
std::unique_ptr<Checkpoints::Job> Checkpoints::new_job(const observe::CheckpointEvent& event,
                                                       const CheckpointLayout& layout) {
  for (std::optional<state::CheckpointFolder>* folder : {&folder_, &fallback_}) {
    if (!*folder) continue;
    try {
      return std::make_unique<Job>(**folder, event.step, layout);
    } catch (const Error& error) {
      report(failed(event, error.message(), folder == &folder_ && fallback_));
    }
  }
  return nullptr;
}

bool Checkpoints::can_move(const Job& job) const { return fallback_ && job.folder != &*fallback_; }

/// Begins a checkpoint anew in the other folder, with what a job that failed had been sent by other ranks.
/// @return null if there is no other folder. @throws Error
std::unique_ptr<Checkpoints::Job> Checkpoints::moved(const Job& failed) {
  if (!can_move(failed)) return nullptr;
  auto job = std::make_unique<Job>(*fallback_, failed.step, failed.layout);
  job->copy_received(failed);
  return job;
}

observe::CheckpointEvent Checkpoints::failed(observe::CheckpointEvent event, const std::string& why,
                                             bool tries_elsewhere) {
  event.error = why;
  event.tries_elsewhere = tries_elsewhere;
  return event;
}

void Checkpoints::report(const observe::CheckpointEvent& event) {
  if (!event.path.empty()) newest_ = event;
  if (listener_ != nullptr) listener_->checkpoint(event);
}

/// Runs on a thread of its own. @return the events, in their order
std::vector<observe::CheckpointEvent> Checkpoints::write(const observe::CheckpointEvent& begun, double stall,
                                                         std::unique_ptr<Job> job) {
  std::vector<observe::CheckpointEvent> events;
  while (job) {
    const Clock::time_point begin = Clock::now();
    observe::CheckpointEvent event = begun;
    event.stall_seconds = stall;
    try {
      write(*job, options_.keep);
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      event.error = known != nullptr ? known->message() : error.what();
    }
    event.path = job->checkpoint.committed().string();  // also if no link could name it, or no older one be removed
    if (!event.path.empty())
      for (const auto& [name, record] : job->content.files) event.bytes += record.whole.bytes.value;
    event.tries_elsewhere = event.path.empty() && can_move(*job);
    event.write_seconds = seconds_between(begin, Clock::now());
    events.push_back(event);
    if (!event.path.empty()) break;
    try {
      std::unique_ptr<Job> next = moved(*job);
      if (next) {
        next->staged = std::move(job->staged);
        next->content = std::move(job->content);
        next->content.files.clear();
        next->is_best = job->is_best;
      }
      job = std::move(next);
    } catch (const Error& error) {
      events.push_back(failed(begun, error.message()));
      break;
    }
  }
  return events;
}

/// Writes a checkpoint and removes older ones. @throws what hindered it, after everything else was tried
void Checkpoints::write(Job& job, int keep) {
  for (const StoredPart& part : job.staged->parts) job.write(part);
  for (const CheckpointFile file : {CheckpointFile::model, CheckpointFile::optimizer}) {
    const auto i = static_cast<std::size_t>(file);
    const state::SafetensorsHeader& header = job.layout.header(file);
    const std::vector<state::Checksum> sums = state::tensor_checksums(header, std::move(job.written[i]));
    state::StateFile::Record record{.whole = state::file_checksum(header, sums)};
    for (std::size_t tensor = 0; tensor < sums.size(); ++tensor)
      record.tensors[header.tensors()[tensor].name] = sums[tensor].crc;
    job.content.files[checkpoint_files[i]] = std::move(record);
  }
  std::exception_ptr trouble;
  const auto attempt = [&trouble](const auto& action) {
    try {
      action();
    } catch (const Error&) {
      if (!trouble) trouble = std::current_exception();
    }
  };
  attempt([&] { job.checkpoint.commit(job.content); });
  if (!job.checkpoint.committed().empty()) {
    if (job.is_best) attempt([&] { job.folder->link_best(job.step); });
    attempt([&] { job.folder->remove_all_but(keep); });
  }
  if (trouble) std::rethrow_exception(trouble);
}

void Checkpoints::send(const Store& store, const CheckpointLayout& layout) {
  if (!store.is_sharded()) return;
  Communicator& communicator = group_->control();
  for (const StoredPart& part : layout.parts_of(store, false)) {
    PartHead head{static_cast<std::int64_t>(part.file), part.tensor, part.first.value, part.elements.count.value};
    communicator.send(Buffer(head), {0}, Queue::host(), "checkpoint").wait();
    communicator.send(part.elements, {0}, Queue::host(), "checkpoint").wait();
  }
  PartHead end{-1};
  communicator.send(Buffer(end), {0}, Queue::host(), "checkpoint").wait();
}

/// Writes the parts of the other ranks, in their order, and receives them even if there is trouble.
/// @param job  null if nothing is to be written; it becomes another one, or null, if writing fails
void Checkpoints::receive(const observe::CheckpointEvent& event, std::unique_ptr<Job>& job,
                          const CheckpointLayout& layout) {
  Communicator& communicator = group_->control();
  std::vector<std::byte> memory;
  const auto write = [&](const StoredPart& part) {
    while (job) {
      try {
        return job->write_received(part);
      } catch (const Error& error) {
        report(failed(event, error.message(), can_move(*job)));
      }
      try {
        job = moved(*job);
      } catch (const Error& error) {
        report(failed(event, error.message()));
        job = nullptr;
      }
    }
  };
  for (int rank = 1; rank < group_->size(); ++rank) {
    PartHead head{};
    while (communicator.recv(Buffer(head), {rank}, Queue::host(), "checkpoint").wait(), head[0] >= 0) {
      StoredPart part{static_cast<CheckpointFile>(head[0]), static_cast<int>(head[1]), {head[2]}, {}};
      const DType dtype = layout.header(part.file).tensors()[static_cast<std::size_t>(part.tensor)].dtype;
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
