// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoint_job.hpp"

#include <exception>

namespace lockstep::trainer {
namespace {

std::int64_t staged_bytes(const StoredPart& part) { return (part.elements.bytes().value + 63) / 64 * 64; }

}  // namespace

CheckpointJob::CheckpointJob(state::CheckpointFolder& folder, std::int64_t step, CheckpointLayout layout)
    : folder_(&folder), checkpoint_(folder, step), layout_(std::move(layout)), step_(step) {
  for (const CheckpointFile file : checkpoint_files) {
    const auto path = checkpoint_.path() / name_of(file);
    state::SafetensorsWriter::create(path, layout_.header(file));
    writers_.emplace_back(path, layout_.header(file));
  }
}

void CheckpointJob::write(const StoredPart& part) {
  const auto i = static_cast<std::size_t>(part.file);
  written_[i].push_back(writers_[i].write(part.tensor, part.first, part.elements));
}

void CheckpointJob::write_received(StoredPart part) {
  write(part);
  part.elements.data = nullptr;
  received_.push_back(part);
}

void CheckpointJob::stage(std::vector<StoredPart> parts, const ops::ComputeDevice& device, state::StateFile content,
                          bool is_best) {
  std::int64_t bytes = 0;
  for (const StoredPart& part : parts) bytes += staged_bytes(part);
  staged_ = {device.allocate_staging({bytes}), std::move(parts), std::move(content), is_best};
  auto* at = static_cast<std::byte*>(staged_.memory.data());
  for (StoredPart& part : staged_.parts) {
    device.copy(at, part.elements.data, part.elements.bytes(), device.queue());
    part.elements = {at, part.elements.count, part.elements.dtype};
    at += staged_bytes(part);
  }
  device.wait(device.queue());
}

void CheckpointJob::commit(int keep) {
  for (const StoredPart& part : staged_.parts) write(part);
  for (const CheckpointFile file : checkpoint_files)
    staged_.content.files[name_of(file)] =
        state::record_of(layout_.header(file), std::move(written_[static_cast<std::size_t>(file)]));
  std::exception_ptr trouble;
  const auto attempt = [&trouble](const auto& action) {
    try {
      action();
    } catch (const Error&) {
      if (!trouble) trouble = std::current_exception();
    }
  };
  attempt([&] { checkpoint_.commit(staged_.content); });
  if (!checkpoint_.committed().empty()) {
    if (staged_.is_best) attempt([&] { folder_->link_best(step_); });
    attempt([&] { folder_->remove_all_but(keep); });
  }
  if (trouble) std::rethrow_exception(trouble);
}

std::unique_ptr<CheckpointJob> CheckpointJob::moved_to(state::CheckpointFolder& folder) {
  auto job = std::make_unique<CheckpointJob>(folder, step_, layout_);
  std::vector<std::byte> memory;
  for (StoredPart part : received_) {
    const state::SafetensorsReader from(checkpoint_.path() / name_of(part.file));
    memory.resize(static_cast<std::size_t>(part.elements.bytes().value));
    part.elements.data = memory.data();
    from.read(from.index_of(layout_.tensor(part).name), part.first, part.elements);
    job->write_received(part);
  }
  job->staged_ = std::move(staged_);
  job->staged_.content.files.clear();
  return job;
}

std::int64_t CheckpointJob::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, record] : staged_.content.files) bytes += record.whole.bytes.value;
  return bytes;
}

}  // namespace lockstep::trainer
