// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints: rank 0 reads the files, and broadcasts what it reads.
#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"
#include "state/verify.hpp"
#include "trainer/checkpoints.hpp"
#include "trainer/finite_state.hpp"
#include "trainer/resume.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t chunk_bytes = 4 << 20;

/// The files of a checkpoint, on rank 0.
struct OpenFiles {
  explicit OpenFiles(const std::filesystem::path& checkpoint) {
    for (const char* name : checkpoint_files) readers.emplace_back(checkpoint / name);
  }
  std::vector<state::SafetensorsReader> readers;
};

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

/// Broadcasts the tensors of rank 0's files, and lets each rank take what it wants.
class TensorLoader {
 public:
  TensorLoader(ProcessGroup& group, const OpenFiles* files, const CheckpointLayout& layout,
               const ops::ComputeDevice& device)
      : group_(group), files_(files), layout_(layout), device_(device) {}

  void want(const std::vector<StoredPart>& parts) {
    for (const StoredPart& part : parts) wanted_[{part.file, part.tensor}].push_back(part);
  }
  void load(CheckpointFile file) {
    const state::SafetensorsHeader& header = layout_.header(file);
    for (std::size_t i = 0; i < header.tensors().size(); ++i) load(file, static_cast<int>(i), header.tensors()[i]);
  }

 private:
  void load(CheckpointFile file, int index, const state::StoredTensor& tensor) {
    const std::int64_t length = chunk_bytes / size_of(tensor.dtype);
    chunk_.resize(static_cast<std::size_t>(chunk_bytes));
    for (std::int64_t first = 0; first < tensor.count().value; first += length) {
      const Buffer chunk{chunk_.data(), {std::min(length, tensor.count().value - first)}, tensor.dtype};
      on_rank_zero(group_, [&] {
        const state::SafetensorsReader& reader = files_->readers[static_cast<std::size_t>(file)];
        reader.read(reader.index_of(tensor.name), {first}, chunk);
        if (const auto at = first_not_finite(chunk))
          throw Error(ErrorCode::corrupt, "in '" + reader.path().string() + "', element " +
                                              std::to_string(first + *at) + " of the tensor '" + tensor.name +
                                              "' is not finite; resume from another checkpoint");
      });
      group_.communicator().broadcast(chunk, {0}, Queue::host(), tensor.name).wait();
      for (const StoredPart& part : wanted_[{file, index}]) take_common(part, first, chunk, device_);
      device_.wait(device_.queue());  // the chunk is read into again
    }
  }

  ProcessGroup& group_;
  const OpenFiles* files_;
  const CheckpointLayout& layout_;
  const ops::ComputeDevice& device_;
  std::map<std::pair<CheckpointFile, int>, std::vector<StoredPart>> wanted_;
  std::vector<std::byte> chunk_;
};

}  // namespace

std::optional<OpenedCheckpoint> open_checkpoint(ProcessGroup& group, const std::string& wish,
                                                const std::filesystem::path& folder, const std::filesystem::path& other,
                                                std::vector<std::string>& notes) {
  OpenedCheckpoint opened;
  std::string text;
  on_rank_zero(group, [&] {
    state::FoundCheckpoint found = state::find_checkpoint(wish, folder);
    if (wish == "auto" && !other.empty()) {
      state::FoundCheckpoint second = state::newest_good_checkpoint(other);
      found.refused.insert(found.refused.end(), second.refused.begin(), second.refused.end());
      const auto age =
          [](const std::optional<std::filesystem::path>& path) {  // the step in the name, of 8 digits or more
            const std::string name = path ? path->filename().string() : "";
            return std::pair(name.size(), name);
          };
      if (age(second.path) > age(found.path)) found.path = second.path;
    }
    notes = std::move(found.refused);
    if (!found.path) return;
    opened.path = *found.path;
    const state::StateFile file = state::verify_checkpoint(*found.path, state::Check::sizes);
    for (const char* name : checkpoint_files) {
      if (!file.files.contains(name))
        throw Error(ErrorCode::corrupt, "'" + found.path->string() + "' has no file '" + name +
                                            "', so it is no checkpoint of this program; resume from another one");
    }
    text = file.text();
  });
  text = text_of_rank(group, text);
  if (text.empty()) return std::nullopt;
  opened.file = state::StateFile::parse(text, "state.json");
  return opened;
}

void load_tensors(ProcessGroup& group, const std::filesystem::path& path, Store& store) {
  std::optional<OpenFiles> files;
  std::int64_t statistics = 0;
  on_rank_zero(group, [&] {
    files.emplace(path);
    statistics = CheckpointLayout::statistics_in(files->readers.back().header());
    const CheckpointLayout layout(store, statistics);
    for (const CheckpointFile file : {CheckpointFile::model, CheckpointFile::optimizer}) {
      const auto i = static_cast<std::size_t>(file);
      require_same_tensors(files->readers[i].header(), layout.header(file), checkpoint_files[i]);
    }
  });
  group.control().broadcast(std::span(&statistics, 1), {0}, Queue::host(), "running statistics").wait();
  const CheckpointLayout layout(store, statistics);
  TensorLoader loader(group, files ? &*files : nullptr, layout, store.model().device());
  Store::AllStatistics all{.samples = std::vector<std::int64_t>(static_cast<std::size_t>(statistics))};
  all.memory.resize(static_cast<std::size_t>(statistics * store.statistics(0).bytes().value));
  all.parts = {all.memory.data(), {statistics * store.statistics(0).count.value}, store.statistics(0).dtype};
  loader.want(layout.parts_of(store, true));
  if (statistics == 1) loader.want(layout.average_of(store, all.parts));
  loader.want(layout.parts_of(store, all));
  loader.load(CheckpointFile::model);
  loader.load(CheckpointFile::optimizer);
  store.take_statistics(all);
}

}  // namespace lockstep::trainer
