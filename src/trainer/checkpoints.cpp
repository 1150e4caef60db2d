// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoints.hpp"

#include <array>
#include <cstring>
#include <exception>
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

/// Copies parts into memory that nobody changes.
struct StagedParts {
  explicit StagedParts(const std::vector<StoredPart>& from) : parts(from) {
    std::int64_t bytes = 0;
    for (const StoredPart& part : from) bytes += rounded_up(part);
    memory = allocate_host({bytes});
    auto* at = static_cast<std::byte*>(memory.data());
    for (StoredPart& part : parts) {
      std::memcpy(at, part.elements.data, static_cast<std::size_t>(part.elements.bytes().value));
      part.elements.data = at;
      at += rounded_up(part);
    }
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
  Job(state::CheckpointFolder& folder, std::int64_t step_in, CheckpointLayout layout_in)
      : checkpoint(folder, step_in), layout(std::move(layout_in)), step(step_in) {
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

  state::NewCheckpoint checkpoint;
  CheckpointLayout layout;
  std::vector<state::SafetensorsWriter> writers;
  std::array<std::vector<state::WrittenPart>, 2> written;
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
  on_rank_zero(group, [&] { folder_.emplace(options_.folder); });
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
  observe::CheckpointEvent event{.epoch = run.epoch, .step = run.global_step};
  std::unique_ptr<Job> job;
  try {
    job = std::make_unique<Job>(*folder_, run.global_step, layout);
  } catch (const Error& error) {
    event.error = error.message();
  }
  if (store.is_sharded()) event.error += receive(job.get(), layout);
  if (!event.error.empty()) {
    if (listener_ != nullptr) listener_->checkpoint(event);
    return;
  }
  std::vector<StoredPart> parts = layout.parts_of(store, false);
  const std::vector<StoredPart> statistics = layout.parts_of(store, all);
  parts.insert(parts.end(), statistics.begin(), statistics.end());
  std::vector<std::byte> copy = all.memory;  // averaging overwrites
  const Buffer copied{copy.data(), all.parts.count, all.parts.dtype};
  average_parts(copied, all.samples);
  const std::vector<StoredPart> averaged = layout.average_of(store, slice(copied, {0}, store.statistics(0).count));
  parts.insert(parts.end(), averaged.begin(), averaged.end());
  job->staged.emplace(parts);
  job->content = std::move(file);
  job->is_best = is_best;
  event.stall_seconds = seconds_between(begin, Clock::now());
  writing_ = std::async(std::launch::async, [this, event, job = std::move(job)]() mutable {
    const Clock::time_point writing = Clock::now();
    try {
      event.path = write(*job, *folder_, options_.keep).string();
      for (const auto& [name, record] : job->content.files) event.bytes += record.whole.bytes.value;
    } catch (const Error& error) {
      event.error = error.message();
    } catch (const std::exception& error) {
      event.error = error.what();
    }
    job.reset();
    event.write_seconds = seconds_between(writing, Clock::now());
    return event;
  });
}

/// @return the path of the checkpoint
std::filesystem::path Checkpoints::write(Job& job, state::CheckpointFolder& folder, int keep) {
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
  std::filesystem::path path = job.checkpoint.commit(job.content);
  if (job.is_best) folder.link_best(job.step);
  folder.remove_all_but(keep);
  return path;
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
/// @param job  null if nothing is to be written. @return what is wrong; empty: nothing
std::string Checkpoints::receive(Job* job, const CheckpointLayout& layout) {
  Communicator& communicator = group_->control();
  std::string trouble;
  std::vector<std::byte> memory;
  for (int rank = 1; rank < group_->size(); ++rank) {
    PartHead head{};
    while (communicator.recv(Buffer(head), {rank}, Queue::host(), "checkpoint").wait(), head[0] >= 0) {
      StoredPart part{static_cast<CheckpointFile>(head[0]), static_cast<int>(head[1]), {head[2]}, {}};
      const DType dtype = layout.header(part.file).tensors()[static_cast<std::size_t>(part.tensor)].dtype;
      memory.resize(static_cast<std::size_t>(head[3] * size_of(dtype)));
      part.elements = {memory.data(), {head[3]}, dtype};
      communicator.recv(part.elements, {rank}, Queue::host(), "checkpoint").wait();
      if (job == nullptr || !trouble.empty()) continue;
      try {
        job->write(part);
      } catch (const Error& error) {
        trouble = error.message();
      }
    }
  }
  return trouble;
}

void Checkpoints::poll() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void Checkpoints::finish() {
  if (!writing_.valid()) return;
  const observe::CheckpointEvent event = writing_.get();
  if (listener_ != nullptr) listener_->checkpoint(event);
}

void Checkpoints::continue_from(const std::filesystem::path& checkpoint, std::int64_t step) {
  if (!folder_) return;
  std::error_code error;
  if (!std::filesystem::equivalent(checkpoint.parent_path(), folder_->path(), error)) return;
  folder_->continue_from(step);
}

}  // namespace lockstep::trainer
