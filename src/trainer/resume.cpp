// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::trainer {
namespace {

using Setting = Snapshot::Setting;

std::string broadcast(Communicator& communicator, std::string text, Rank root) {
  auto length = static_cast<std::int64_t>(text.size());
  communicator.broadcast(std::span(&length, 1), root, Queue::host(), "snapshot").wait();
  text.resize(static_cast<std::size_t>(length));
  communicator.broadcast(Buffer{text.data(), {length}, DType::uint8}, root, Queue::host(), "snapshot").wait();
  return text;
}

std::string to_text(const std::vector<Setting>& settings) {
  std::string text;
  for (const auto& [name, value] : settings) text += name + '\t' + value + '\n';
  return text;
}

std::vector<Setting> from_text(const std::string& text) {
  std::vector<Setting> settings;
  std::istringstream lines(text);
  for (Setting setting; std::getline(lines, setting.name, '\t') && std::getline(lines, setting.value);)
    settings.push_back(setting);
  return settings;
}

/// Describes the settings that differ; empty if none does. Hashes and lengths, which follow from others, are named only
/// if nothing else differs.
std::string difference(const std::vector<Setting>& snapshot, const std::vector<Setting>& own) {
  const auto value = [](const std::vector<Setting>& of, const std::string& name) {
    const auto found = std::find_if(of.begin(), of.end(), [&](const Setting& s) { return s.name == name; });
    return found == of.end() ? "nothing" : found->value;
  };
  std::string differences;
  std::string derived;
  for (const Setting& setting : own) {
    const std::string other = value(snapshot, setting.name);
    if (other == setting.value) continue;
    const bool is_derived =
        setting.name == "parameters" || setting.name == "statistics" || setting.name.starts_with("bytes of");
    std::string& text = is_derived ? derived : differences;
    text += (text.empty() ? "" : "; ") + setting.name + " " + other + ", this run " + setting.value;
  }
  return differences.empty() ? derived : differences;
}

}  // namespace

void require_same_run(ProcessGroup& group, const std::vector<Setting>& rank_zeros, const std::vector<Setting>& own) {
  const std::string different = difference(from_text(rank_zeros_text(group, to_text(rank_zeros))), own);
  require_no_obstacle(group, different.empty() ? "" : "has " + different);
}

void require_no_obstacle(ProcessGroup& group, const std::string& obstacle) {
  Communicator& communicator = group.control();
  std::uint8_t has_one = obstacle.empty() ? 0 : 1;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(group.size()));
  communicator.all_gather(std::span(&has_one, 1), std::span(all), Queue::host(), "snapshot").wait();
  std::vector<int> others;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != 0) others.push_back(static_cast<int>(rank));
  if (others.empty()) return;
  const std::string why = broadcast(communicator, obstacle, {others.front()});
  throw Error(ErrorCode::mismatch,
              "the ranks named here cannot go on from rank 0's checkpoint, which " + why + ". Nothing was changed",
              {.operation = "restore", .rank = group.rank().value, .host = group.host(), .peers = std::move(others)})
      .on_every_rank();
}

}  // namespace lockstep::trainer
