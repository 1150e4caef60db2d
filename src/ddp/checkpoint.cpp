// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "ddp/checkpoint_numbers.hpp"
#include "ddp/rank_zero.hpp"
#include "kernels/finite.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/safetensors_file.hpp"
#include "state/verify.hpp"

namespace lockstep {
namespace {

constexpr std::array<const char*, 2> tensor_files = {"model.safetensors", "tensors.safetensors"};
constexpr const char* numbers_section = "numbers";

struct AddedTensor {
  state::StoredTensor stored;
  Buffer memory;
};

std::string form_of(const state::StoredTensor& tensor) {
  return std::string(name(tensor.dtype)) + ' ' + state::extents_text(tensor.extents);
}

void add_difference(std::string& list, const std::string& difference) {
  list += (list.empty() ? "" : "; ") + difference;
}

}  // namespace

struct Checkpoint::State {
  ProcessGroup* group;
  int keep;
  std::optional<state::CheckpointFolder> folder;  // on rank 0
  std::filesystem::path path;
  std::array<std::vector<AddedTensor>, tensor_files.size()> tensors;
  std::map<std::string, Number> numbers;  // and texts

  /// Returns an error of this rank. @param label  the name that it is about
  [[nodiscard]] Error refusal(const std::string& why, const std::string& label,
                              ErrorCode code = ErrorCode::invalid_argument) const {
    return {code, why, {.label = label, .rank = group->rank().value, .host = group->host()}};
  }
  void add(std::size_t file, const std::string& name, const Buffer& memory,
           const std::optional<std::vector<std::int64_t>>& extents);
  void add(const std::string& name, Number number);
  [[nodiscard]] state::SafetensorsHeader header(std::size_t file) const;
  void require_same_on_all_ranks();
  void require_finite_model() const;
  void write(std::int64_t step);
  [[nodiscard]] std::string differences(const std::filesystem::path& checkpoint, const state::StateFile& content) const;
  void read(const std::filesystem::path& checkpoint, const state::StateFile& content);
};

void Checkpoint::State::add(std::size_t file, const std::string& name, const Buffer& memory,
                            const std::optional<std::vector<std::int64_t>>& extents) {
  AddedTensor added{
      .stored = {.name = name, .dtype = memory.dtype, .extents = extents.value_or(std::vector{memory.count.value})},
      .memory = memory};
  if (std::ranges::any_of(tensors[file], [&](const AddedTensor& other) { return other.stored.name == name; }))
    throw refusal("a tensor '" + echo(name) + "' was added before: give each its own name", name);
  if (memory.kind == MemoryKind::device)
    throw refusal("the tensor '" + echo(name) + "' is in the memory of a GPU: copy it to host memory, and add that",
                  name, ErrorCode::unsupported);
  (void)state::SafetensorsHeader::of({added.stored});  // checks name and extents
  if (added.stored.count() != memory.count)
    throw refusal("the tensor '" + echo(name) + "' has " + std::to_string(memory.count.value) +
                      " elements, and the extents are of " + form_of(added.stored),
                  name);
  tensors[file].push_back(std::move(added));
}

void Checkpoint::State::add(const std::string& name, Number number) {
  if (numbers.emplace(name, number).second) return;
  throw refusal("a number or text '" + echo(name) + "' was added before: give each its own name", name);
}

state::SafetensorsHeader Checkpoint::State::header(std::size_t file) const {
  std::vector<state::StoredTensor> stored;
  for (const AddedTensor& tensor : tensors[file]) stored.push_back(tensor.stored);
  return state::SafetensorsHeader::of(std::move(stored), {{"format", "pt"}});
}

/// Compares what the ranks have added, before anything whose size depends on it is exchanged.
void Checkpoint::State::require_same_on_all_ranks() {
  Fnv1a hash;
  for (std::size_t file = 0; file < tensors.size(); ++file) hash.add(header(file).text());
  for (const auto& [name, number] : numbers) hash.add(name + ' ' + ddp::kind_of(number));
  std::vector<int> others = ranks_unlike_zero(group->control(), hash.value(), "checkpoint");
  if (others.empty()) return;
  throw_on_every_rank(
      *group, Error(ErrorCode::mismatch,
                    "on the ranks named here, other tensors or numbers were added to the checkpoint than on rank 0, by "
                    "name, type or extents: add the same on all ranks",
                    {.operation = "checkpoint", .peers = std::move(others)}));
}

/// Older checkpoints would otherwise give way to ones of a model that is lost.
void Checkpoint::State::require_finite_model() const {
  for (const AddedTensor& tensor : tensors.front()) {
    if (kernels::all_finite(tensor.memory)) continue;
    throw refusal("the tensor '" + echo(tensor.stored.name) +
                      "' of the model has elements that are not finite, so it is not saved: restore an earlier "
                      "checkpoint, and go on with a lower learning rate",
                  tensor.stored.name, ErrorCode::diverged);
  }
}

void Checkpoint::State::write(std::int64_t step) {
  require_finite_model();
  state::NewCheckpoint checkpoint(*folder, step);
  state::StateFile content;
  content.sections[numbers_section];
  for (const auto& [name, number] : numbers) {
    if (auto* const* text = std::get_if<std::string*>(&number); text != nullptr && !ddp::is_utf8(**text))
      throw refusal("the text '" + echo(name) + "' is not UTF-8, as state.json is: add its bytes as a tensor of uint8",
                    name);
    content.sections[numbers_section][name] = ddp::stored_value(number);
  }
  for (std::size_t file = 0; file < tensors.size(); ++file) {
    if (tensors[file].empty()) continue;
    const state::SafetensorsHeader all = header(file);
    const std::filesystem::path at = checkpoint.path() / tensor_files[file];
    state::SafetensorsWriter::create(at, all);
    const state::SafetensorsWriter writer(at, all);
    std::vector<state::WrittenPart> written;
    for (const AddedTensor& tensor : tensors[file])
      written.push_back(writer.write(all.index_of(tensor.stored.name), {0}, tensor.memory));
    content.files[tensor_files[file]] = state::record_of(all, std::move(written));
  }
  path = checkpoint.commit(content);
  folder->remove_all_but(keep);
}

/// Describes in which names, types and extents a checkpoint differs from what was added; empty if in none.
std::string Checkpoint::State::differences(const std::filesystem::path& checkpoint,
                                           const state::StateFile& content) const {
  std::string list;
  for (std::size_t file = 0; file < tensors.size(); ++file) {
    std::map<std::string, std::string> saved;
    if (content.files.count(tensor_files[file]) != 0) {
      const state::SafetensorsReader reader(checkpoint / tensor_files[file]);
      for (const state::StoredTensor& tensor : reader.header().tensors()) saved[tensor.name] = form_of(tensor);
    }
    for (const AddedTensor& tensor : tensors[file]) {
      const std::string quoted = "'" + echo(tensor.stored.name) + "'";
      const auto found = saved.find(tensor.stored.name);
      if (found == saved.end()) {
        add_difference(list, "it lacks the tensor " + quoted);
      } else if (found->second != form_of(tensor.stored)) {
        add_difference(list,
                       "its tensor " + quoted + " is " + found->second + ", the program's " + form_of(tensor.stored));
      }
      if (found != saved.end()) saved.erase(found);
    }
    for (const auto& [name, form] : saved) add_difference(list, "its tensor '" + echo(name) + "' was not added");
  }
  const auto section = content.sections.find(numbers_section);
  state::StateFile::Section saved = section == content.sections.end() ? state::StateFile::Section() : section->second;
  for (const auto& [name, number] : numbers) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      add_difference(list, "it lacks the number or text '" + echo(name) + "'");
      continue;
    }
    if (!ddp::restore(number, found->second, false)) {
      add_difference(list, "its '" + echo(name) + "' is " + ddp::description(found->second) +
                               ", which does not fit the program's " + ddp::kind_of(number));
    }
    saved.erase(found);
  }
  for (const auto& [name, value] : saved) add_difference(list, "its number or text '" + echo(name) + "' was not added");
  return list;
}

void Checkpoint::State::read(const std::filesystem::path& checkpoint, const state::StateFile& content) {
  for (std::size_t file = 0; file < tensors.size(); ++file) {
    std::optional<state::SafetensorsReader> reader;
    on_rank_zero(*group, [&] {
      if (!tensors[file].empty()) reader.emplace(checkpoint / tensor_files[file]);
    });
    for (const AddedTensor& tensor : tensors[file]) {
      on_rank_zero(*group, [&] { reader->read(reader->index_of(tensor.stored.name), {0}, tensor.memory); });
      group->communicator().broadcast(tensor.memory, {0}, Queue::host(), tensor.stored.name).wait();
    }
  }
  for (const auto& [name, number] : numbers)
    (void)ddp::restore(number, content.sections.at(numbers_section).at(name), true);
}

Checkpoint::Checkpoint(ProcessGroup& group, const std::filesystem::path& folder, int keep)
    : state_(std::make_unique<State>(
          State{.group = &group, .keep = keep, .folder = {}, .path = {}, .tensors = {}, .numbers = {}})) {
  if (keep < 1)
    throw state_
        ->refusal("the number of checkpoints to keep is " + std::to_string(keep) + "; it must be at least 1", {})
        .on_every_rank();
  on_rank_zero(group, [&] { state_->folder.emplace(folder); });
}

Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint& Checkpoint::add(const DataParallel& parallel) {
  const std::vector<TensorSlot>& slots = parallel.layout().tensors();
  for (std::size_t i = 0; i < slots.size(); ++i)
    add_to_model(slots[i].name, parallel.value(static_cast<int>(i)), slots[i].shape);
  return *this;
}

Checkpoint& Checkpoint::add_to_model(const std::string& name, const Buffer& tensor,
                                     const std::optional<std::vector<std::int64_t>>& extents) {
  state_->add(0, name, tensor, extents);
  return *this;
}

Checkpoint& Checkpoint::add(const std::string& name, const Buffer& tensor,
                            const std::optional<std::vector<std::int64_t>>& extents) {
  state_->add(1, name, tensor, extents);
  return *this;
}

Checkpoint& Checkpoint::add_number(const std::string& name, Number number) {
  state_->add(name, number);
  return *this;
}

std::filesystem::path Checkpoint::save(std::int64_t step) {
  state_->require_same_on_all_ranks();
  on_rank_zero(*state_->group, [&] {
    if (step < 0)
      throw state_->refusal("a checkpoint of step " + std::to_string(step) + ": steps are not negative", {});
    state_->write(step);
  });
  return text_of_rank(*state_->group, state_->path.string());
}

std::optional<std::int64_t> Checkpoint::restore(const std::string& which) {
  state_->require_same_on_all_ranks();
  std::filesystem::path path;
  std::string text;
  on_rank_zero(*state_->group, [&] {
    const state::FoundCheckpoint found = state::find_checkpoint(which, state_->folder->run_folder());
    if (!found.path) return;
    path = *found.path;
    const state::StateFile content = state::verify_checkpoint(path, state::Check::sizes);
    const std::string differences = state_->differences(path, content);
    if (!differences.empty())
      throw Error(ErrorCode::mismatch, "the checkpoint '" + echo(path.string(), 400) +
                                           "' is not of this program: " + differences +
                                           ". Nothing was changed; add what was saved, or restore another one");
    text = content.text();
  });
  text = text_of_rank(*state_->group, text);
  if (text.empty()) return std::nullopt;
  const auto content = state::StateFile::parse(text, "state.json");
  const std::int64_t step = content.step;
  state_->read(path, content);
  on_rank_zero(*state_->group, [&] {
    std::error_code other;
    if (std::filesystem::equivalent(path.parent_path(), state_->folder->path(), other))
      state_->folder->continue_from(step);
  });
  return step;
}

}  // namespace lockstep
