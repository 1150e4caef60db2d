// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/nearest.hpp"
#include "ddp/rank_zero.hpp"
#include "kernels/convert.hpp"
#include "state/safetensors_file.hpp"
#include "trainer/checkpoint/checkpoint_reading.hpp"
#include "trainer/checkpoint/finite_state.hpp"
#include "trainer/replica/host_mirror.hpp"

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

using state::extents_text;

/// Describes a tensor of the file that does not hold real numbers; empty if it does.
std::string not_real(const state::StoredTensor& tensor) {
  if (!tensor.foreign.empty()) return tensor.foreign;
  return is_real(tensor.dtype) ? "" : std::string(name(tensor.dtype)) + ' ' + extents_text(tensor.extents);
}

/// @param constants  of the graph, which need not be those of the file
LoadedWeights compared(const state::SafetensorsHeader& file, const std::vector<Target>& targets,
                       const std::vector<nn::Constant>& constants) {
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
    const bool is_constant = std::ranges::find(constants, other.name, &nn::Constant::name) != constants.end();
    if (!is_of_model[i] && !is_batch_count(other.name) && !is_constant)
      found.tensors.push_back(
          {.name = other.name, .in_file = other.extents, .in_model = {}, .not_real = not_real(other)});
  }
  return found;
}

/// Returns the parameters of the last layers with parameters before the model's outputs and losses.
std::vector<std::string> head_of(const nn::Graph& graph) {
  std::vector<bool> is_output(graph.values().size());
  for (const nn::Output& output : graph.outputs()) is_output[static_cast<std::size_t>(output.value)] = true;
  std::vector<std::string> names;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const nn::Node& node = graph.nodes()[n];
    if (node.output >= 0 && !is_output[static_cast<std::size_t>(node.output)]) continue;
    for (const int parameter : node.parameters) names.push_back(graph.parameters().at(parameter).name);
    if (node.parameters.empty())
      for (const int value : node.inputs) is_output[static_cast<std::size_t>(value)] = true;
  }
  return names;
}

/// Returns whether only the first extents differ, which are the numbers of outputs.
bool is_of_other_classes(const LoadedWeights::Tensor& tensor) {
  if (!tensor.in_file || !tensor.in_model || !tensor.not_real.empty()) return false;
  std::vector<std::int64_t> extents = *tensor.in_file;
  if (extents.empty() || extents.size() != tensor.in_model->size()) return false;
  extents.front() = tensor.in_model->front();
  return extents == *tensor.in_model;
}

/// Returns whether at most the head differs, by its number of classes, and something else is loaded.
bool fits_but_for_head(const LoadedWeights& found, const std::vector<std::string>& head) {
  const auto is_good = [&](const LoadedWeights::Tensor& tensor) {
    return tensor.is_loaded() || tensor.is_needless() ||
           (is_of_other_classes(tensor) && std::ranges::find(head, tensor.name) != head.end());
  };
  return std::ranges::all_of(found.tensors, is_good) &&
         std::ranges::any_of(found.tensors, &LoadedWeights::Tensor::is_loaded);
}

/// @throws Error{mismatch} that names the tensors that do not fit
void require_fit(const LoadedWeights& found, const std::string& path, const nn::Graph& model, WeightsMatch match) {
  if (match == WeightsMatch::any_head && fits_but_for_head(found, head_of(model))) return;
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
  const std::string head = "the weights in '" + echo(path, 400) + "' do not fit the model " + model.name();
  if (match == WeightsMatch::partial && !is_any_loaded)
    throw Error(ErrorCode::mismatch, head + ", not even one tensor: " + differences +
                                         ". Give a file with the names that the model's own files have");
  if (match != WeightsMatch::partial && others > 0)
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
  const auto copy = [&](const auto* from) {
    if (to.dtype == DType::float32) std::copy_n(from, count, static_cast<float*>(to.data));
    if (to.dtype == DType::float64) std::copy_n(from, count, static_cast<double*>(to.data));
  };
  if (dtype == DType::float64) return copy(reinterpret_cast<const double*>(memory.data()));
  if (dtype == DType::float32) return copy(reinterpret_cast<const float*>(memory.data()));
  std::vector<float> floats(count);
  if (dtype == DType::float16)
    kernels::convert(std::span(reinterpret_cast<const float16*>(memory.data()), count), floats);
  if (dtype == DType::bfloat16)
    kernels::convert(std::span(reinterpret_cast<const bfloat16*>(memory.data()), count), floats);
  copy(floats.data());
}

/// Decides on rank 0 which tensors of the file are loaded. Collective.
/// @param reader  of the file; opened on rank 0
/// @param found   receives, on rank 0, what becomes of each tensor
/// @return for each target whether it is loaded
std::vector<std::uint8_t> choose(ProcessGroup& group, const std::filesystem::path& path, const nn::Graph& model,
                                 WeightsMatch match, const std::vector<Target>& targets,
                                 std::optional<state::SafetensorsReader>& reader, LoadedWeights& found) {
  std::vector<std::uint8_t> is_loaded(targets.size());
  on_rank_zero(group, [&] {
    reader.emplace(path, state::ForeignTensors::describe);
    found = compared(reader->header(), targets, model.constants());
    require_fit(found, path.string(), model, match);
    for (std::size_t i = 0; i < targets.size(); ++i) is_loaded[i] = found.tensors[i].is_loaded() ? 1 : 0;
  });
  group.control().broadcast(std::span(is_loaded), {0}, Queue::host(), "weights to load").wait();
  return is_loaded;
}

/// Overwrites a target on all ranks with its tensor in the file, which rank 0 reads. Collective.
void load_target(ProcessGroup& group, const std::filesystem::path& path, const Target& target,
                 const std::optional<state::SafetensorsReader>& reader) {
  const TensorSlot& slot = *target.slot;
  std::vector<std::byte> scratch;
  for (std::int64_t first = 0; first < slot.count.value; first += chunk_elements) {
    const Buffer part = slice(target.elements, {first}, {std::min(chunk_elements, slot.count.value - first)});
    read_finite(group, part,
                {.file = path.string(),
                 .tensor = slot.name,
                 .first = first,
                 .remedy = "give weights of a run that has not diverged"},
                [&] { read_as(*reader, reader->index_of(slot.name), {first}, part, scratch); });
  }
}

}  // namespace

LoadedWeights load_weights(ProcessGroup& group, const std::filesystem::path& path, Store& store, WeightsMatch match) {
  const nn::Model& model = store.model();
  const HostMirror values(model.device(), store.values());
  GatheredStatistics statistics = store.statistics().make_gathered(1);
  const Buffer memory = statistics.as(model.dtype());
  copy_and_wait(model.device(), memory, store.statistics().part(0));
  std::vector<Target> targets;
  add_targets(targets, model.parameters(), values.buffer());
  add_targets(targets, model.state(), memory);

  LoadedWeights found;
  std::optional<state::SafetensorsReader> reader;
  const auto is_loaded = choose(group, path, model.graph(), match, targets, reader, found);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (is_loaded[i] != 0) load_target(group, path, targets[i], reader);
  values.write_back();
  store.statistics().take(statistics);
  store.start_averages();
  return found;
}

}  // namespace lockstep::trainer
