// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoint_layout.hpp"

#include <iterator>

#include "state/safetensors_file.hpp"

namespace lockstep::trainer {
namespace {

constexpr const char* values_prefix = "values.";
constexpr const char* sums_prefix = "gradient_sum.";
constexpr const char* statistics_prefix = "statistics.";
constexpr const char* statistics_ema_prefix = "statistics_average.";
constexpr const char* samples_name = "statistics.samples";

std::string prefix_of(std::string_view state) { return std::string(state) + '.'; }

/// Adds the tensors of a layout. @param parts  a first extent of all tensors; 0: none
void add_tensors(std::vector<state::StoredTensor>& tensors, const std::string& prefix, const Layout& layout,
                 DType dtype, std::int64_t parts = 0) {
  for (const TensorSlot& slot : layout.tensors()) {
    std::vector<std::int64_t> extents = slot.shape;
    if (parts > 0) extents.insert(extents.begin(), parts);
    tensors.push_back({.name = prefix + slot.name, .dtype = dtype, .extents = std::move(extents)});
  }
}

}  // namespace

CheckpointLayout::CheckpointLayout(const Store& store, std::int64_t statistics,
                                   state::SafetensorsHeader::Metadata metadata) {
  const Layout& parameters = store.model().parameters();
  const Layout& state = store.model().state();
  const DType dtype = store.model().dtype();
  std::vector<state::StoredTensor> model;
  add_tensors(model, "", parameters, dtype);
  add_tensors(model, "", state, dtype);
  for (const nn::Constant& constant : store.model().graph().constants())
    model.push_back({.name = constant.name, .dtype = dtype, .extents = constant.shape});
  std::vector<state::StoredTensor> optimizer;
  for (const std::string_view name : store.state_names()) add_tensors(optimizer, prefix_of(name), parameters, dtype);
  if (store.has_averages()) add_tensors(optimizer, values_prefix, parameters, dtype);
  if (store.has_gradient_sums()) add_tensors(optimizer, sums_prefix, parameters, dtype);
  const bool has_ema = store.model().state_of_shard() > state.count();
  if ((statistics > 1 || has_ema) && !state.tensors().empty()) {
    add_tensors(optimizer, statistics_prefix, state, dtype, statistics);
    if (has_ema) add_tensors(optimizer, statistics_ema_prefix, state, dtype, statistics);
    optimizer.push_back({.name = samples_name, .dtype = DType::int64, .extents = {statistics}});
  }
  metadata["format"] = "pt";  // for PyTorch
  headers_.push_back(state::SafetensorsHeader::of(std::move(model), std::move(metadata)));
  headers_.push_back(state::SafetensorsHeader::of(std::move(optimizer)));
}

std::int64_t CheckpointLayout::statistics_in(const state::SafetensorsHeader& optimizer) {
  const int samples = optimizer.index_of(samples_name);
  return samples < 0 ? 1 : optimizer.tensors()[static_cast<std::size_t>(samples)].count().value;
}

/// @param own  the elements of `owned`, one after the other
void CheckpointLayout::add(std::vector<StoredPart>& parts, CheckpointFile file, const std::string& prefix,
                           const Layout& layout, const Buffer& own, std::span<const LayoutPart> owned) const {
  std::int64_t before = 0;
  for (const LayoutPart& part : owned) {
    for (const state::TensorPart& inside : state::tensor_parts(layout, part)) {
      const TensorSlot& slot = layout.at(inside.tensor);
      const Count at{before + slot.offset.value + inside.first.value - part.offset.value};
      parts.push_back({file, header(file).index_of(prefix + slot.name), inside.first, slice(own, at, inside.count)});
    }
    before += part.count.value;
  }
}

void CheckpointLayout::add_own(std::vector<StoredPart>& parts, const Store& store, bool all_values) const {
  const Layout& layout = store.model().parameters();
  const bool averages = store.has_averages();
  const CheckpointFile file = averages ? CheckpointFile::optimizer : CheckpointFile::model;
  const std::vector<LayoutPart> whole{{{0}, layout.count()}};
  for (const LayoutPart& part : all_values ? whole : store.owned())
    add(parts, file, averages ? values_prefix : "", layout, slice(store.values(), part.offset, part.count), {&part, 1});
  if (averages) add(parts, CheckpointFile::model, "", layout, store.averages(), store.owned());
  if (store.has_gradient_sums())
    add(parts, CheckpointFile::optimizer, sums_prefix, layout, store.gradient_sums(), store.owned());
  const std::vector<Buffer> states = store.optimizer_state();
  for (std::size_t i = 0; i < states.size(); ++i)
    add(parts, CheckpointFile::optimizer, prefix_of(store.state_names()[i]), layout, states[i], store.owned());
}

void CheckpointLayout::add_average(std::vector<StoredPart>& parts, const Store& store, const Buffer& memory) const {
  const LayoutPart whole{{0}, store.model().state().count()};
  const Count last{memory.count.value - whole.count.value};  // the EMA, if there is one
  add(parts, CheckpointFile::model, "", store.model().state(), slice(memory, last, whole.count), {&whole, 1});
}

void CheckpointLayout::add_constants(std::vector<StoredPart>& parts, const Store& store) const {
  Count first;
  for (const nn::Constant& constant : store.model().graph().constants()) {
    const Count count{std::ssize(constant.values)};
    const int tensor = header(CheckpointFile::model).index_of(constant.name);
    parts.push_back({CheckpointFile::model, tensor, {0}, slice(store.constants(), first, count)});
    first += count;
  }
}

bool CheckpointLayout::has_statistics() const { return header(CheckpointFile::optimizer).index_of(samples_name) >= 0; }

void CheckpointLayout::add_statistics(std::vector<StoredPart>& parts, const Store& store,
                                      GatheredStatistics& all) const {
  const state::SafetensorsHeader& optimizer = header(CheckpointFile::optimizer);
  if (!has_statistics()) return;
  parts.push_back({CheckpointFile::optimizer, optimizer.index_of(samples_name), {0}, Buffer(all.samples)});
  const Layout& layout = store.model().state();
  const Buffer memory = all.as(store.model().dtype());
  const Count each = store.model().state_of_shard();
  for (std::int64_t part = 0; part < std::ssize(all.samples); ++part) {
    for (Count first; first < each; first += layout.count()) {
      const std::string prefix = first.value == 0 ? statistics_prefix : statistics_ema_prefix;
      for (const TensorSlot& slot : layout.tensors())
        parts.push_back({CheckpointFile::optimizer,
                         optimizer.index_of(prefix + slot.name),
                         {part * slot.count.value},
                         slice(memory, Count{part * each.value} + first + slot.offset, slot.count)});
    }
  }
}

}  // namespace lockstep::trainer
