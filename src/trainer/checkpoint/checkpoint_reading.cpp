// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoint_reading.hpp"

#include <algorithm>
#include <map>

#include "base/nearest.hpp"
#include "ddp/rank_zero.hpp"
#include "state/safetensors_file.hpp"
#include "state/verify.hpp"
#include "trainer/checkpoint/checkpoint_layout.hpp"
#include "trainer/checkpoint/finite_state.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t chunk_bytes = 4 << 20;

/// @throws Error{mismatch} that names the first tensor that differs
void require_same_tensors(const state::SafetensorsHeader& found, const state::SafetensorsHeader& wanted,
                          const std::string& file) {
  const auto refuse = [&](const std::string& name, const std::string& why) {
    throw Error(ErrorCode::mismatch, "'" + echo(file, 400) + "' " + why + " the tensor '" + echo(name) +
                                         "' of this model and optimizer: resume with the options of the run that "
                                         "saved it");
  };
  for (const state::StoredTensor& tensor : wanted.tensors()) {
    const int index = found.index_of(tensor.name);
    if (index < 0) refuse(tensor.name, "lacks");
    const state::StoredTensor& other = found.tensors()[static_cast<std::size_t>(index)];
    if (other.extents != tensor.extents || other.dtype != tensor.dtype) refuse(tensor.name, "has another form of");
  }
}

/// Copies the elements of a chunk that a part wants.
void take_common(const StoredPart& part, std::int64_t first, const Buffer& chunk, const ops::ComputeDevice& device) {
  const LayoutPart both = common({part.first, part.elements.count}, {{first}, chunk.count});
  if (both.count.value == 0) return;
  const Buffer from = slice(chunk, {both.offset.value - first}, both.count);
  const Buffer to = slice(part.elements, {both.offset.value - part.first.value}, both.count);
  device.copy(to.data, from.data, to.bytes(), device.queue());
}

/// The parts that a rank wants of each tensor.
using Wanted = std::map<std::pair<CheckpointFile, int>, std::vector<StoredPart>>;

/// Broadcasts the tensors of a file, which rank 0 reads, and lets each rank take what it wants.
/// @param readers  by file; none on other ranks than 0
void load_file(ProcessGroup& group, const std::vector<state::SafetensorsReader>& readers, CheckpointFile file,
               const CheckpointLayout& layout, const ops::ComputeDevice& device, Wanted& wanted) {
  const auto* reader = readers.empty() ? nullptr : &readers[static_cast<std::size_t>(file)];
  std::vector<std::byte> memory(static_cast<std::size_t>(chunk_bytes));
  for (int i = 0; const state::StoredTensor& tensor : layout.header(file).tensors()) {
    const std::vector<StoredPart>& parts = wanted[{file, i++}];
    const std::int64_t length = chunk_bytes / size_of(tensor.dtype);
    for (std::int64_t first = 0; first < tensor.count().value; first += length) {
      const Buffer chunk{memory.data(), {std::min(length, tensor.count().value - first)}, tensor.dtype};
      read_finite(group, chunk,
                  {.file = reader == nullptr ? "" : reader->path().string(),
                   .tensor = tensor.name,
                   .first = first,
                   .remedy = "resume from another checkpoint"},
                  [&] { reader->read(reader->index_of(tensor.name), {first}, chunk); });
      for (const StoredPart& part : parts) take_common(part, first, chunk, device);
      device.wait(device.queue());  // the chunk is read into again
    }
  }
}

/// Finds the checkpoint that a user means. @param other  another folder into which "auto" looks, too; empty: none
state::FoundCheckpoint find(const std::string& wish, const std::filesystem::path& folder,
                            const std::filesystem::path& other) {
  state::FoundCheckpoint found = state::find_checkpoint(wish, folder);
  if (wish != "auto" || other.empty()) return found;
  const state::FoundCheckpoint second = state::newest_good_checkpoint(other);
  found.refused.insert(found.refused.end(), second.refused.begin(), second.refused.end());
  const auto age = [](const std::optional<std::filesystem::path>& path) {  // the step in the name, of 8 digits or more
    const std::string name = path ? path->filename().string() : "";
    return std::pair(name.size(), name);
  };
  if (age(second.path) > age(found.path)) found.path = second.path;
  return found;
}

}  // namespace

OpenedCheckpoint open_checkpoint(ProcessGroup& group, const std::string& wish, const std::filesystem::path& folder,
                                 const std::filesystem::path& other) {
  OpenedCheckpoint opened;
  std::string text;
  on_rank_zero(group, [&] {
    state::FoundCheckpoint found = find(wish, folder, other);
    opened.refused = std::move(found.refused);
    if (!found.path) return;
    opened.path = *found.path;
    const state::StateFile file = state::verify_checkpoint(opened.path, state::Check::sizes);
    for (const CheckpointFile needed : checkpoint_files) {
      if (!file.files.contains(name_of(needed)))
        throw Error(ErrorCode::corrupt, "'" + opened.path.string() + "' has no file '" + name_of(needed) +
                                            "', so it is no checkpoint of this program; resume from another one");
    }
    text = file.text();
  });
  text = text_of_rank(group, text);
  if (!text.empty()) opened.file = state::StateFile::parse(text, "state.json");
  return opened;
}

void load_tensors(ProcessGroup& group, const std::filesystem::path& path, Store& store) {
  std::vector<state::SafetensorsReader> readers;
  std::int64_t statistics = 0;
  on_rank_zero(group, [&] {
    for (const CheckpointFile file : checkpoint_files) readers.emplace_back(path / name_of(file));
    statistics = CheckpointLayout::statistics_in(readers.back().header());
    const CheckpointLayout layout(store, statistics);
    for (const CheckpointFile file : checkpoint_files)
      require_same_tensors(readers[static_cast<std::size_t>(file)].header(), layout.header(file), name_of(file));
  });
  group.control().broadcast(std::span(&statistics, 1), {0}, Queue::host(), "running statistics").wait();
  const CheckpointLayout layout(store, statistics);
  GatheredStatistics all = store.statistics().make_gathered(statistics);
  std::vector<StoredPart> parts;
  layout.add_own(parts, store, true);
  if (!layout.has_statistics()) layout.add_average(parts, store, all.as(store.model().dtype()));
  layout.add_statistics(parts, store, all);
  Wanted wanted;
  for (const StoredPart& part : parts) wanted[{part.file, part.tensor}].push_back(part);
  for (const CheckpointFile file : checkpoint_files)
    load_file(group, readers, file, layout, store.model().device(), wanted);
  store.statistics().take(all);
}

}  // namespace lockstep::trainer
