// SPDX-License-Identifier: Apache-2.0
// Options of the learning rate: its peak, its schedule, its warm-up, and its scaling with the batch.
#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>

#include "apps/train/option_rows.hpp"
#include "lockstep/nn/learning_rate.hpp"

namespace lockstep::train {
namespace {

using nn::Decay;

/// In the order of `nn::Decay`.
constexpr std::array<std::string_view, 5> schedules = {"constant", "step", "cosine", "polynomial", "one-cycle"};
constexpr std::array<std::string_view, 3> scalings = {"none", "linear", "sqrt"};

Decay schedule_of(const std::string& name) {
  return static_cast<Decay>(std::find(schedules.begin(), schedules.end(), name) - schedules.begin());
}

/// @throws UsageError
std::vector<double> milestones_of(const std::string& list) {
  const Option milestone{.name = "lr-milestones",
                         .domain = Real{.min = 0, .max = 1, .above_min = true, .below_max = true},
                         .help = "",
                         .advice = "milestones are fractions of the run"};
  std::vector<double> milestones;
  for (const std::string& word : words_of(list)) milestones.push_back(std::get<double>(parse_value(milestone, word)));
  return milestones;
}

/// Refuses a given option of other schedules than the one that is chosen.
std::string belongs_to(std::initializer_list<Decay> owners, const std::string& option, const OptionValues& given,
                       const Options& o) {
  const Decay chosen = o.trainer.schedule.decay;
  if (!given.has(option) || std::find(owners.begin(), owners.end(), chosen) != owners.end()) return "";
  std::string names;
  for (const Decay owner : owners) names += (names.empty() ? "" : ", ") + schedule_name(owner);
  return "--" + option + " has no meaning with --lr-schedule " + schedule_name(chosen) + "; it belongs to " + names;
}

std::string conflict_of_milestones(const OptionValues& given, const Options& o) {
  const std::vector<double>& milestones = o.trainer.schedule.milestones;
  if (std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>()) != milestones.end())
    return "--lr-milestones " + given.get<std::string>("lr-milestones") + ": milestones must ascend";
  return belongs_to({Decay::step}, "lr-milestones", given, o);
}

/// @param option  --warmup or --warmup-steps
std::string conflict_of_warmup(const std::string& option, const OptionValues& given, const Options& o) {
  if (!given.has(option)) return "";
  if (o.trainer.schedule.decay == Decay::one_cycle)
    return "--" + option + " has no meaning with --lr-schedule one-cycle, which begins with a warm-up of its own";
  if (option == "warmup" || !given.has("warmup")) return "";
  return "--warmup-steps beside --warmup: give the warm-up in steps or in epochs, and leave the other one out";
}

std::string conflict_of_base_batch(const OptionValues& given, const Options& o) {
  if (!given.has("base-batch") || o.lr_scaling == "linear" || o.lr_scaling == "sqrt") return "";
  return "--base-batch has no meaning with --lr-scaling " + o.lr_scaling + "; it belongs to linear, sqrt";
}

std::vector<Option> schedule_rows(Options& o) {
  nn::LearningRateSchedule& schedule = o.trainer.schedule;
  return {
      {.name = "lr",
       .domain = Real{.min = 0, .max = 1e38, .above_min = true},
       .help = "peak learning rate, before --lr-scaling; its schedule is in the header of the run",
       .default_text = "by model and optimizer",
       .store = into(schedule.peak)},
      {.name = "lr-schedule",
       .domain = one_of(schedules),
       .help = "how the learning rate falls from its peak until the end of the run, be that given by --epochs or "
               "--steps; one-cycle also rises to the peak, in 30 % of the run",
       .default_text = "by model",
       .store = into(schedule.decay, schedule_of)},
      {.name = "lr-final",
       .domain = Real{.min = 0, .max = 1},
       .help = "final learning rate of the schedules cosine, polynomial and one-cycle, as a fraction of the peak",
       .default_text = "0; 4e-06 with --lr-schedule one-cycle",
       .store = into(schedule.final_fraction),
       .conflict =
           [&o](const OptionValues& given) {
             return belongs_to({Decay::cosine, Decay::polynomial, Decay::one_cycle}, "lr-final", given, o);
           }},
      {.name = "lr-milestones",
       .domain = Text{"X,..."},
       .help = "where the schedule step lowers the learning rate: fractions of the run",
       .otherwise = "0.5,0.75",
       .store = into(schedule.milestones, milestones_of),
       .conflict = [&o](const OptionValues& given) { return conflict_of_milestones(given, o); }},
      {.name = "lr-gamma",
       .domain = Real{.min = 0, .max = 1, .above_min = true},
       .help = "factor of the schedule step at each milestone",
       .otherwise = "0.1",
       .store = into(schedule.gamma),
       .conflict = [&o](const OptionValues& given) { return belongs_to({Decay::step}, "lr-gamma", given, o); }},
      {.name = "lr-power",
       .domain = Real{.min = 0, .max = 100, .above_min = true},
       .help = "power of the schedule polynomial; 1 is linear decay",
       .otherwise = "1",
       .store = into(schedule.power),
       .conflict = [&o](const OptionValues& given) { return belongs_to({Decay::polynomial}, "lr-power", given, o); }}};
}

std::vector<Option> warmup_and_scaling_rows(Options& o) {
  return {{.name = "warmup",
           .domain = Real{.min = 0, .max = 1e9},
           .help = "epochs, or a fraction of one, in which the learning rate grows linearly to its peak",
           .default_text = "by model",
           .store = into(o.warmup_epochs),
           .conflict = [&o](const OptionValues& given) { return conflict_of_warmup("warmup", given, o); }},
          {.name = "warmup-steps",
           .domain = Whole{0, 1'000'000'000'000},
           .help = "the same in steps, instead of --warmup",
           .default_text = "by --warmup",
           .store = into(o.warmup_steps),
           .conflict = [&o](const OptionValues& given) { return conflict_of_warmup("warmup-steps", given, o); }},
          {.name = "lr-scaling",
           .domain = Word{.words = {scalings.begin(), scalings.end()},
                          .or_number = Real{.min = 0, .max = 1e6, .above_min = true}},
           .help = "multiply --lr by the global batch divided by --base-batch, by the square root of that, or by X",
           .otherwise = "none",
           .store = into(o.lr_scaling)},
          {.name = "base-batch",
           .domain = Whole{1, 1'000'000'000},
           .help = "global batch that --lr is meant for",
           .default_text = "the model's usual batch",
           .store = into(o.base_batch),
           .conflict = [&o](const OptionValues& given) { return conflict_of_base_batch(given, o); }}};
}

}  // namespace

std::string schedule_name(Decay decay) { return std::string(schedules.at(static_cast<std::size_t>(decay))); }

OptionGroup learning_rate_options(Options& o) {
  OptionGroup group{"Learning rate", schedule_rows(o)};
  for (Option& row : warmup_and_scaling_rows(o)) group.options.push_back(std::move(row));
  return group;
}

}  // namespace lockstep::train
