// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "ddp/rank_zero.hpp"
#include "kernels/finite.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"
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
  std::string text = std::string(name(tensor.dtype)) + " [";
  for (const std::int64_t extent : tensor.extents) text += (text.back() == '[' ? "" : ", ") + std::to_string(extent);
  return text + ']';
}

void add_difference(std::string& list, const std::string& difference) {
  list += (list.empty() ? "" : "; ") + difference;
}

/// Calls `action` with a pointer to the number as an integer of its width.
template <typename Action>
auto as_integer(void* memory, std::size_t bytes, bool is_signed, const Action& action) {
  switch (bytes) {
    case 1: return is_signed ? action(static_cast<std::int8_t*>(memory)) : action(static_cast<std::uint8_t*>(memory));
    case 2: return is_signed ? action(static_cast<std::int16_t*>(memory)) : action(static_cast<std::uint16_t*>(memory));
    case 4: return is_signed ? action(static_cast<std::int32_t*>(memory)) : action(static_cast<std::uint32_t*>(memory));
    default:
      return is_signed ? action(static_cast<std::int64_t*>(memory)) : action(static_cast<std::uint64_t*>(memory));
  }
}

using Value = state::StateFile::Value;

/// Returns the form in which state.json has a whole number: beyond 2⁶³ − 1 it is a text.
template <typename Integer>
Value value_of(Integer number) {
  if (std::in_range<std::int64_t>(number)) return static_cast<std::int64_t>(number);
  return std::to_string(number);
}

/// Returns a whole number of state.json as the given type; nothing if it is none, or does not fit.
template <typename Integer>
std::optional<Integer> integer_of(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    if (!std::in_range<Integer>(*number)) return std::nullopt;
    return static_cast<Integer>(*number);
  }
  Integer number{};
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

/// Returns a real number of state.json; nothing if it is none.
std::optional<double> real_of(const state::StateFile& content, const std::string& name) {
  try {
    return content.real(numbers_section, name);
  } catch (const Error&) {  // it is a text
    return std::nullopt;
  }
}

/// Returns whether state.json has the text unchanged: it replaces bytes that are not UTF-8.
bool is_utf8(const std::string& text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  const auto replacements = [&](std::string_view in) {
    std::size_t count = 0;
    for (auto at = in.find(replacement); at != std::string_view::npos; at = in.find(replacement, at + 1)) ++count;
    return count;
  };
  state::StateFile alone;
  alone.sections[numbers_section]["text"] = text;
  return replacements(alone.text()) == replacements(text);
}

/// Describes a number or text for a message.
std::string description(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return "the real number " + std::to_string(*number);
  return "the text '" + echo(std::get<std::string>(value)) + "'";
}

}  // namespace

struct Checkpoint::State {
  using AddedNumber = std::variant<Number, std::string*>;

  ProcessGroup* group;
  int keep;
  std::optional<state::CheckpointFolder> folder;  // on rank 0
  std::filesystem::path path;
  std::array<std::vector<AddedTensor>, tensor_files.size()> tensors;
  std::map<std::string, AddedNumber> numbers;  // and texts

  /// Names the kind and width of a number, as in messages: "int32".
  [[nodiscard]] static std::string kind_of(const AddedNumber& added);
  void add(std::size_t file, const std::string& name, const Buffer& memory,
           const std::optional<std::vector<std::int64_t>>& extents);
  void add(const std::string& name, const AddedNumber& number);
  /// Returns the form in which state.json has the number or text, in which it is restored exactly.
  [[nodiscard]] Value stored(const std::string& name, const AddedNumber& number) const;
  /// Overwrites the number or text if `changes`. @return whether the value fits it
  [[nodiscard]] static bool restore(const AddedNumber& number, const state::StateFile& content, const std::string& name,
                                    bool changes);
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
  const ErrorContext context{.label = name, .rank = group->rank().value, .host = group->host()};
  const auto has_name = [&](const AddedTensor& other) { return other.stored.name == name; };
  if (std::any_of(tensors[file].begin(), tensors[file].end(), has_name))
    throw Error(ErrorCode::invalid_argument, "a tensor '" + echo(name) + "' was added before: give each its own name",
                context);
  if (memory.kind == MemoryKind::device)
    throw Error(ErrorCode::unsupported,
                "the tensor '" + echo(name) + "' is in the memory of a GPU: copy it to host memory, and add that",
                context);
  (void)state::SafetensorsHeader::of({added.stored});  // checks name and extents
  if (added.stored.count() != memory.count) {
    throw Error(ErrorCode::invalid_argument,
                "the tensor '" + echo(name) + "' has " + std::to_string(memory.count.value) +
                    " elements, and the extents are of " + form_of(added.stored),
                context);
  }
  tensors[file].push_back(std::move(added));
}

void Checkpoint::State::add(const std::string& name, const AddedNumber& number) {
  if (numbers.emplace(name, number).second) return;
  throw Error(ErrorCode::invalid_argument,
              "a number or text '" + echo(name) + "' was added before: give each its own name",
              {.label = name, .rank = group->rank().value, .host = group->host()});
}

std::string Checkpoint::State::kind_of(const AddedNumber& added) {
  if (std::holds_alternative<std::string*>(added)) return "text";
  const auto& number = std::get<Number>(added);
  constexpr std::array<std::string_view, 4> kinds = {"bool", "int", "uint", "float"};
  const std::string kind(kinds.at(number.kind));
  return number.kind == Number::boolean ? kind : kind + std::to_string(8 * number.bytes);
}

Value Checkpoint::State::stored(const std::string& name, const AddedNumber& added) const {
  if (const auto* const* text = std::get_if<std::string*>(&added)) {
    if (is_utf8(**text)) return **text;
    throw Error(ErrorCode::invalid_argument,
                "the text '" + echo(name) + "' is not UTF-8, as state.json is: add its bytes as a tensor of uint8",
                {.label = name, .rank = group->rank().value, .host = group->host()});
  }
  const auto& number = std::get<Number>(added);
  if (number.kind == Number::boolean) return std::int64_t{*static_cast<const bool*>(number.memory) ? 1 : 0};
  if (number.kind != Number::real) {
    return as_integer(number.memory, number.bytes, number.kind == Number::whole,
                      [](const auto* of_program) { return value_of(*of_program); });
  }
  return number.bytes == sizeof(float) ? double{*static_cast<const float*>(number.memory)}
                                       : *static_cast<const double*>(number.memory);
}

bool Checkpoint::State::restore(const AddedNumber& added, const state::StateFile& content, const std::string& name,
                                bool changes) {
  const Value& value = content.sections.at(numbers_section).at(name);
  const auto assign = [changes](auto& to, const auto& from) {
    if (changes && from) to = *from;
    return from.has_value();
  };
  if (auto* const* text = std::get_if<std::string*>(&added)) {
    const auto* saved = std::get_if<std::string>(&value);
    return assign(**text, saved != nullptr ? std::optional(*saved) : std::nullopt);
  }
  const auto& number = std::get<Number>(added);
  if (number.kind == Number::boolean) {
    const auto flag = integer_of<std::int64_t>(value);
    if (!flag || (*flag != 0 && *flag != 1)) return false;
    return assign(*static_cast<bool*>(number.memory), std::optional(*flag == 1));
  }
  if (number.kind != Number::real) {
    return as_integer(number.memory, number.bytes, number.kind == Number::whole, [&](auto* of_program) {
      return assign(*of_program, integer_of<std::remove_pointer_t<decltype(of_program)>>(value));
    });
  }
  const std::optional<double> real = real_of(content, name);
  if (number.bytes == sizeof(double)) return assign(*static_cast<double*>(number.memory), real);
  if (!real || (static_cast<double>(static_cast<float>(*real)) != *real && !std::isnan(*real))) return false;
  return assign(*static_cast<float*>(number.memory), std::optional(static_cast<float>(*real)));
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
  for (const auto& [name, number] : numbers) hash.add(name + ' ' + kind_of(number));
  std::vector<int> others = ranks_unlike_zero(group->control(), hash.value(), "checkpoint");
  if (others.empty()) return;
  throw_on_every_rank(
      group->control(),
      Error(
          ErrorCode::mismatch,
          "on the ranks named here, other tensors or numbers were added to the checkpoint than on rank 0, by name, "
          "type or extents: add the same on all ranks",
          {.operation = "checkpoint", .rank = group->rank().value, .host = group->host(), .peers = std::move(others)}));
}

/// Older checkpoints would otherwise give way to ones of a model that is lost.
void Checkpoint::State::require_finite_model() const {
  for (const AddedTensor& tensor : tensors.front()) {
    if (kernels::all_finite(tensor.memory)) continue;
    throw Error(ErrorCode::diverged,
                "the tensor '" + echo(tensor.stored.name) +
                    "' of the model has elements that are not finite, so it is not saved: restore an earlier "
                    "checkpoint, and go on with a lower learning rate",
                {.label = tensor.stored.name, .rank = group->rank().value, .host = group->host()});
  }
}

void Checkpoint::State::write(std::int64_t step) {
  require_finite_model();
  state::NewCheckpoint checkpoint(*folder, step);
  state::StateFile content;
  content.sections[numbers_section];
  for (const auto& [name, number] : numbers) content.sections[numbers_section][name] = stored(name, number);
  for (std::size_t file = 0; file < tensors.size(); ++file) {
    if (tensors[file].empty()) continue;
    const state::SafetensorsHeader all = header(file);
    const std::filesystem::path at = checkpoint.path() / tensor_files[file];
    state::SafetensorsWriter::create(at, all);
    const state::SafetensorsWriter writer(at, all);
    std::vector<state::WrittenPart> written;
    for (const AddedTensor& tensor : tensors[file])
      written.push_back(writer.write(all.index_of(tensor.stored.name), {0}, tensor.memory));
    const std::vector<state::Checksum> sums = state::tensor_checksums(all, std::move(written));
    state::StateFile::Record& record = content.files[tensor_files[file]];
    record.whole = state::file_checksum(all, sums);
    for (std::size_t i = 0; i < sums.size(); ++i) record.tensors[all.tensors()[i].name] = sums[i].crc;
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
    if (!restore(number, content, name, false)) {
      add_difference(list, "its '" + echo(name) + "' is " + description(found->second) +
                               ", which does not fit the program's " + kind_of(number));
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
  for (const auto& [name, number] : numbers) (void)restore(number, content, name, true);
}

Checkpoint::Checkpoint(ProcessGroup& group, const std::filesystem::path& folder, int keep)
    : state_(std::make_unique<State>(
          State{.group = &group, .keep = keep, .folder = {}, .path = {}, .tensors = {}, .numbers = {}})) {
  if (keep < 1) {
    throw Error(ErrorCode::invalid_argument,
                "the number of checkpoints to keep is " + std::to_string(keep) + "; it must be at least 1",
                {.rank = group.rank().value, .host = group.host()})
        .on_every_rank();
  }
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

Checkpoint& Checkpoint::add_number(const std::string& name, const Number& number) {
  state_->add(name, number);
  return *this;
}

Checkpoint& Checkpoint::add(const std::string& name, std::string& text) {
  state_->add(name, &text);
  return *this;
}

std::filesystem::path Checkpoint::save(std::int64_t step) {
  state_->require_same_on_all_ranks();
  on_rank_zero(*state_->group, [&] {
    if (step < 0)
      throw Error(ErrorCode::invalid_argument,
                  "a checkpoint of step " + std::to_string(step) + ": steps are not negative");
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
