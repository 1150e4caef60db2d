// SPDX-License-Identifier: Apache-2.0
#include "trainer/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "base/nearest.hpp"
#include "kernels/convert.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"
#include "state/safetensors_file.hpp"
#include "trainer/finite_state.hpp"
#include "trainer/host_view.hpp"
#include "trainer/resume.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t chunk_elements = 1 << 20;

/// A tensor of the model, and its memory on this rank.
struct Target {
  const TensorSlot* slot;
  Buffer elements;
};

void add_targets(std::vector<Target>& targets, const Layout& layout, const Buffer& memory) {
  for (const TensorSlot& slot : layout.tensors()) targets.push_back({&slot, slice(memory, slot.offset, slot.count)});
}

bool is_real(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::float16 || dtype == DType::bfloat16;
}

/// PyTorch counts batches in a tensor of each batch norm. Nothing reads the count unless its momentum is None.
bool is_batch_count(const std::string& name) { return name.ends_with("num_batches_tracked"); }

std::string extents_text(const std::vector<std::int64_t>& extents) {
  std::string text;
  for (const std::int64_t extent : extents) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return '[' + text + ']';
}

/// Describes a tensor of the file that does not hold real numbers; empty if it does.
std::string not_real(const state::StoredTensor& tensor) {
  if (!tensor.foreign.empty()) return tensor.foreign;
  return is_real(tensor.dtype) ? "" : std::string(name(tensor.dtype)) + ' ' + extents_text(tensor.extents);
}

LoadedWeights compared(const state::SafetensorsHeader& file, const std::vector<Target>& targets) {
  LoadedWeights found;
  std::vector<bool> is_of_model(file.tensors().size());
  for (const Target& target : targets) {
    LoadedWeights::Tensor tensor{.name = target.slot->name, .in_file = {}, .in_model = target.slot->shape};
    if (const int index = file.index_of(tensor.name); index >= 0) {
      const state::StoredTensor& stored = file.tensors()[static_cast<std::size_t>(index)];
      is_of_model[static_cast<std::size_t>(index)] = true;
      tensor.in_file = stored.extents;
      tensor.not_real = not_real(stored);
    }
    found.tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < is_of_model.size(); ++i) {
    const state::StoredTensor& other = file.tensors()[i];
    if (!is_of_model[i] && !is_batch_count(other.name))
      found.tensors.push_back(
          {.name = other.name, .in_file = other.extents, .in_model = {}, .not_real = not_real(other)});
  }
  return found;
}

/// @throws Error{mismatch} that names the tensors that do not fit
void require_fit(const LoadedWeights& found, const std::string& path, const std::string& model, WeightsMatch match) {
  constexpr int most = 10;
  std::string differences;
  int others = 0;
  bool is_any_loaded = false;
  for (const LoadedWeights::Tensor& tensor : found.tensors) {
    is_any_loaded = is_any_loaded || tensor.is_loaded();
    if (tensor.is_loaded() || tensor.is_needless() || ++others > most) continue;
    const std::string name = "'" + echo(tensor.name) + "'";
    differences += (differences.empty() ? "" : "; ") +
                   (!tensor.in_file    ? "it lacks " + name + ' ' + extents_text(*tensor.in_model)
                    : !tensor.in_model ? "its " + name + ' ' + extents_text(*tensor.in_file) + " is not in the model"
                    : !tensor.not_real.empty() ? "its " + name + " is " + tensor.not_real +
                                                     ", the model's has real numbers: save it as float32"
                                               : "its " + name + " is " + extents_text(*tensor.in_file) +
                                                     ", the model's " + extents_text(*tensor.in_model));
  }
  if (others > most) differences += "; and " + std::to_string(others - most) + " more";
  const std::string head = "the weights in '" + echo(path, 400) + "' do not fit the model " + model;
  if (match == WeightsMatch::partial && !is_any_loaded)
    throw Error(ErrorCode::mismatch, head + ", not even one tensor: " + differences +
                                         ". Give a file with the names that the model's own files have");
  if (match == WeightsMatch::strict && others > 0)
    throw Error(ErrorCode::mismatch,
                head + ": " + differences + ". Give weights of this model, or load only the tensors that fit");
}

/// Reads elements as numbers of another dtype. @param memory  scratch
void read_as(const state::SafetensorsReader& reader, int tensor, Count first, const Buffer& to,
             std::vector<std::byte>& memory) {
  const DType dtype = reader.header().tensors()[static_cast<std::size_t>(tensor)].dtype;
  if (dtype == to.dtype) return reader.read(tensor, first, to);
  const auto count = static_cast<std::size_t>(to.count.value);
  memory.resize(count * static_cast<std::size_t>(size_of(dtype)));
  reader.read(tensor, first, {memory.data(), to.count, dtype});
  std::vector<float> floats(dtype == DType::float64 ? 0 : count);
  if (dtype == DType::float16)
    kernels::convert(std::span(reinterpret_cast<const float16*>(memory.data()), count), floats);
  if (dtype == DType::bfloat16)
    kernels::convert(std::span(reinterpret_cast<const bfloat16*>(memory.data()), count), floats);
  if (dtype == DType::float32) std::memcpy(floats.data(), memory.data(), memory.size());
  if (to.dtype == DType::float32 && dtype == DType::float64) {
    std::copy_n(reinterpret_cast<const double*>(memory.data()), count, static_cast<float*>(to.data));
  } else if (to.dtype == DType::float32) {
    std::copy(floats.begin(), floats.end(), static_cast<float*>(to.data));
  } else {
    std::copy(floats.begin(), floats.end(), static_cast<double*>(to.data));
  }
}

}  // namespace

LoadedWeights load_weights(ProcessGroup& group, const std::filesystem::path& path, Store& store, WeightsMatch match) {
  const ops::ComputeDevice& device = store.model().device();
  std::vector<std::byte> statistics(static_cast<std::size_t>(store.statistics(0).bytes().value));
  const HostView own(device, store.statistics(0));
  if (!statistics.empty()) std::memcpy(statistics.data(), own.buffer().data, statistics.size());
  const HostView values(device, store.values());
  std::vector<Target> targets;
  add_targets(targets, store.model().parameters(), values.buffer());
  add_targets(targets, store.model().state(),
              {statistics.data(), store.statistics(0).count, store.statistics(0).dtype});

  LoadedWeights found;
  std::vector<std::uint8_t> is_loaded(targets.size());
  std::optional<state::SafetensorsReader> reader;
  on_rank_zero(group, [&] {
    reader.emplace(path, state::ForeignTensors::describe);
    found = compared(reader->header(), targets);
    require_fit(found, path.string(), store.model().graph().name(), match);
    for (std::size_t i = 0; i < targets.size(); ++i) is_loaded[i] = found.tensors[i].is_loaded() ? 1 : 0;
  });
  group.control().broadcast(std::span(is_loaded), {0}, Queue::host(), "weights to load").wait();
  std::vector<std::byte> scratch;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const TensorSlot* slot = targets[i].slot;
    for (std::int64_t first = 0; is_loaded[i] != 0 && first < slot->count.value; first += chunk_elements) {
      const Buffer part = slice(targets[i].elements, {first}, {std::min(chunk_elements, slot->count.value - first)});
      on_rank_zero(group, [&] {
        read_as(*reader, reader->index_of(slot->name), {first}, part, scratch);
        if (const auto at = first_not_finite(part))
          throw Error(ErrorCode::corrupt, "in '" + echo(path.string(), 400) + "', element " +
                                              std::to_string(first + *at) + " of the tensor '" + slot->name +
                                              "' is not finite in " + std::string(name(part.dtype)) +
                                              "; give weights of a run that has not diverged");
      });
      group.communicator().broadcast(part, {0}, Queue::host(), slot->name).wait();
    }
  }
  values.write_back();
  Store::AllStatistics all{.memory = std::move(statistics), .parts = {}, .samples = {0}};
  all.parts = {all.memory.data(), store.statistics(0).count, store.statistics(0).dtype};
  store.take_statistics(all);
  store.start_averages();
  return found;
}

}  // namespace lockstep::trainer
