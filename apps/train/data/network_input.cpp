// SPDX-License-Identifier: Apache-2.0
#include "apps/train/data/network_input.hpp"

#include <algorithm>
#include <charconv>

#include "base/nearest.hpp"
#include "base/text_file.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/state_file.hpp"
#include "state/verify.hpp"

namespace lockstep::train {
namespace {

std::string joined(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text += (text.empty() ? "" : ",") + std::string(digits.data(), end);
  }
  return text;
}

const std::string& note(const std::map<std::string, std::string>& notes, const std::string& name) {
  const auto found = notes.find(name);
  if (found == notes.end())
    throw Error(ErrorCode::corrupt, "the checkpoint does not say '" + name +
                                        "' of its network's input: its run was not about labeled pictures, or an "
                                        "earlier version of lockstep wrote it");
  return found->second;
}

template <typename Number>
std::vector<Number> numbers_of(const std::map<std::string, std::string>& notes, const std::string& name) {
  const std::string& text = note(notes, name);
  std::vector<Number> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    Number number{};
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc() || (read.ptr < end && *read.ptr != ','))
      throw Error(ErrorCode::corrupt,
                  "the checkpoint has '" + echo(text) + "' for '" + name + "' of its network's input");
    numbers.push_back(number);
    at = read.ptr + 1;
  }
  return numbers;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

constexpr const char* section = "input";

}  // namespace

std::map<std::string, std::string> NetworkInput::notes() const {
  std::string names;
  for (const std::string& name : class_names) names += echo(name, 1000) + '\n';
  return {{"class_names", names},
          {"channels_height_width",
           std::to_string(channels) + ',' + std::to_string(size.height) + ',' + std::to_string(size.width)},
          {"mean", joined(normalization.mean)},
          {"deviation", joined(normalization.deviation)},
          {"transforms", transforms}};
}

NetworkInput NetworkInput::from(const std::map<std::string, std::string>& notes) {
  NetworkInput input{.class_names = lines_of(note(notes, "class_names")), .transforms = note(notes, "transforms")};
  const std::vector<int> extents = numbers_of<int>(notes, "channels_height_width");
  input.normalization = {.mean = numbers_of<double>(notes, "mean"),
                         .deviation = numbers_of<double>(notes, "deviation")};
  const std::size_t channels = input.normalization.mean.size();
  const bool is_valid = extents.size() == 3 &&
                        std::ranges::all_of(extents, [](int n) { return n >= 1 && n <= 65'536; }) &&
                        static_cast<std::size_t>(extents[0]) == channels &&
                        input.normalization.deviation.size() == channels && !input.class_names.empty();
  if (!is_valid)
    throw Error(ErrorCode::corrupt, "the checkpoint's texts about its network's input do not fit together");
  input.channels = extents[0];
  input.size = {.width = extents[2], .height = extents[1]};
  return input;
}

std::optional<NetworkInput> input_of(const data::Dataset& dataset, const std::string& transforms) {
  const std::vector<TensorSpec> tensors = dataset.tensors();
  const bool is_classified = tensors.size() == 2 && tensors[0].name == "images" && tensors[1].elements() == 1;
  const Normalization* normalization = dataset.bytes_of(0);
  if (!is_classified || normalization == nullptr) return std::nullopt;
  const auto [channels, height, width] = tensors[0].extent;
  NetworkInput input{.channels = static_cast<int>(channels),
                     .size = {.width = static_cast<int>(width), .height = static_cast<int>(height)},
                     .normalization = *normalization,
                     .transforms = transforms};
  input.class_names = dataset.class_names();
  for (auto label = static_cast<std::int64_t>(input.class_names.size()); label < dataset.classes(); ++label)
    input.class_names.push_back(std::to_string(label));
  return input;
}

NetworkInput read_input_of_run(const World& world, const Options& options) {
  const Phase phase(world.group(), "reading the checkpoint to predict with", Phase::Kind::work);
  std::string text;
  std::string path;
  agree_on_rank_zero(world.group(), [&] {
    path = (state::find_checkpoint(options.resume, options.save_dir).path.value() / state::state_file_name).string();
    text = read_text(path);
  });
  text = broadcast_string(world.group(), text, {0});
  const state::StateFile file = state::StateFile::parse(text, path);
  std::map<std::string, std::string> notes;
  if (const auto found = file.sections.find(section); found != file.sections.end())
    for (const auto& [name, value] : found->second)
      if (const auto* words = std::get_if<std::string>(&value)) notes[name] = *words;
  return NetworkInput::from(notes);
}

}  // namespace lockstep::train
