// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/resume.hpp"

#include <sstream>
#include <variant>

#include "ddp/rank_zero.hpp"

namespace lockstep::trainer {
namespace {

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << number;
  return text.str();
}

/// Describes the settings that differ; empty if none does. Hashes, which follow from others, are named only if nothing
/// else differs.
std::string difference(const state::StateFile::Section& saved, const std::vector<RunSetting>& own) {
  std::string differences;
  std::string derived;
  for (const auto& [name, value] : own) {
    const auto found = saved.find(name);
    const std::string* text = found == saved.end() ? nullptr : std::get_if<std::string>(&found->second);
    const std::string other = text == nullptr ? "nothing" : *text;
    if (other == value) continue;
    std::string& list = name == "parameters" || name == "statistics" ? derived : differences;
    list += (list.empty() ? "" : "; ") + name + " " + other + ", this run " + value;
  }
  return differences.empty() ? derived : differences;
}

}  // namespace

std::vector<RunSetting> settings_of(const Store& store, const TrainerOptions& options, std::int64_t training_samples) {
  const nn::Model& model = store.model();
  const auto yes_or_no = [](bool is_so) { return is_so ? "yes" : "no"; };
  std::vector<RunSetting> settings{{"model", model.graph().name()},
                                   {"optimizer", std::string(nn::name(store.rule()))},
                                   {"precision", std::string(name(model.values()))},
                                   {"parameters", hexadecimal(model.parameters().hash())},
                                   {"statistics", hexadecimal(model.state().hash())},
                                   {"ema", yes_or_no(store.has_averages())},
                                   {"training samples", std::to_string(training_samples)},
                                   {"batch", std::to_string(options.batch.value)},
                                   {"drop-last", yes_or_no(options.drop_last)},
                                   {"seed", std::to_string(options.seed)},
                                   {"shards", std::to_string(options.step.shards)}};
  if (!options.data_fingerprint.empty()) settings.push_back({"data set", options.data_fingerprint});
  return settings;
}

void require_same_run(ProcessGroup& group, const state::StateFile& checkpoint, const std::vector<RunSetting>& own) {
  const auto saved = checkpoint.sections.find(settings_section);
  const std::string different =
      difference(saved == checkpoint.sections.end() ? state::StateFile::Section{} : saved->second, own);
  require_no_obstacle(group, different.empty() ? "" : "has " + different);
}

std::size_t use_kernels_of(ProcessGroup& group, Replica& replica, const std::string& choices) {
  const ops::KernelChoices before = replica.model().choices();
  std::size_t of_others = 0;
  std::string obstacle;
  try {
    const auto all = ops::KernelChoices::parse(choices, "the checkpoint's kernel choices");
    const ops::KernelChoices own = all.of(replica.model().library());
    of_others = all.size() - own.size();
    // Choices of another library say nothing about this one's kernels, so this run's own stay.
    if (of_others == 0 || !own.empty()) replica.use(own);
  } catch (const Error& error) {
    obstacle = "was computed by algorithms that cannot be had there: " + error.message();
  }
  try {
    require_no_obstacle(group, obstacle);
  } catch (...) {
    replica.use(before);
    throw;
  }
  return of_others;
}

Obstacle gather_obstacle(ProcessGroup& group, const std::string& own) {
  const auto all = gather_values<std::uint8_t>(group, own.empty() ? 0 : 1, "checkpoint");
  Obstacle found;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != 0) found.ranks.push_back(static_cast<int>(rank));
  if (!found.ranks.empty()) found.first = text_of_rank(group, own, {found.ranks.front()});
  return found;
}

void require_no_obstacle(ProcessGroup& group, const std::string& obstacle) {
  const Obstacle found = gather_obstacle(group, obstacle);
  if (found.ranks.empty()) return;
  throw Error(ErrorCode::mismatch,
              "this run cannot go on from rank 0's checkpoint, which " + found.first +
                  ". Nothing was changed; give the options of the run that saved it",
              {.operation = "resume", .rank = group.rank().value, .host = group.host(), .peers = found.ranks})
      .on_every_rank();
}

}  // namespace lockstep::trainer
