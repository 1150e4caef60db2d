// SPDX-License-Identifier: Apache-2.0
// Options of the optimizer and of the learning rate: its peak, schedule, warm-up, and scaling with the batch.
#include <array>
#include <functional>
#include <initializer_list>
#include <optional>

#include "apps/train/options/rows.hpp"
#include "lockstep/nn/learning_rate.hpp"

namespace lockstep::train {
namespace {

using namespace cli;
using nn::Decay;

/// In the order of `ops::UpdateRule`.
constexpr std::array<std::string_view, 4> optimizers = {"sgd", "adamw", "lars", "lamb"};
/// In the order of `nn::Decay`.
constexpr std::array<std::string_view, 5> schedules = {"constant", "step", "cosine", "polynomial", "one-cycle"};
constexpr std::array<std::string_view, 2> rhythms = {"step", "epoch"};
constexpr std::array<std::string_view, 3> scalings = {"none", "linear", "sqrt"};

/// @throws UsageError
std::vector<double> milestones_of(const std::string& list) {
  const Option milestone = row("lr-milestones", Real{.min = 0, .max = 1, .above_min = true, .below_max = true},
                               no_default, "", {}, Scope::all_ranks, "milestones are fractions of the run");
  std::vector<double> milestones;
  for (const std::string& word : words_of(list)) milestones.push_back(std::get<double>(parse_value(milestone, word)));
  return milestones;
}

/// Returns a `store` for an option without a default.
std::function<void(const OptionValue&)> into_optional(std::optional<double>& target) {
  return [&target](const OptionValue& value) { target = std::get<double>(value); };
}

/// Refuses an option that the selected optimizer does not have. @param of  the optimizers that have it
Rule belongs_to(const std::string& of, const std::string& option, const OptionValues& given) {
  const auto optimizer = given.get<std::string>("optimizer");
  return {option, given.has(option) && of.find(optimizer) == std::string::npos,
          "--" + option + " has no meaning with --optimizer " + optimizer + ": only " + of + " has it"};
}

/// Refuses an option of other schedules than the selected one.
Rule belongs_to(std::initializer_list<Decay> owners, const std::string& option, const OptionValues& given,
                const Options& o) {
  const Decay chosen = o.trainer.schedule.decay;
  std::string names;
  for (const Decay owner : owners) names += (names.empty() ? "" : ", ") + schedule_name(owner);
  return {option, given.has(option) && std::ranges::find(owners, chosen) == owners.end(),
          "--" + option + " has no meaning with --lr-schedule " + schedule_name(chosen) + "; it belongs to " + names};
}

/// Refuses an option of the warm-up beside a schedule that has its own.
Rule needs_a_warmup(const std::string& option, const OptionValues& given, const Options& o) {
  return {option, given.has(option) && o.trainer.schedule.decay == Decay::one_cycle,
          "--" + option + " has no meaning with --lr-schedule one-cycle, which begins with a warm-up of its own"};
}

std::vector<Rule> learning_rate_rules(const Options& o, const OptionValues& given) {
  const std::vector<double>& milestones = o.trainer.schedule.milestones;
  const bool ascend = std::ranges::adjacent_find(milestones, std::greater_equal<>()) == milestones.end();
  return {belongs_to({Decay::cosine, Decay::polynomial, Decay::one_cycle}, "lr-final", given, o),
          {"lr-milestones", !ascend,
           "--lr-milestones " + given.get<std::string>("lr-milestones") + ": milestones must ascend"},
          belongs_to({Decay::step}, "lr-milestones", given, o),
          belongs_to({Decay::step}, "lr-gamma", given, o),
          belongs_to({Decay::polynomial}, "lr-power", given, o),
          needs_a_warmup("warmup", given, o),
          needs_a_warmup("warmup-steps", given, o),
          needs_a_warmup("warmup-least-steps", given, o),
          needs_a_warmup("warmup-start", given, o),
          needs_a_warmup("warmup-bias-lr", given, o),
          needs_a_warmup("warmup-momentum", given, o),
          {"lr-by", o.lr_by_epoch && o.trainer.schedule.decay == Decay::one_cycle,
           "--lr-by epoch has no meaning with --lr-schedule one-cycle, which changes the rate from step to step"},
          belongs_to("sgd or lars", "warmup-momentum", given),
          {"warmup-least-steps", given.has("warmup-least-steps") && given.has("warmup-steps"),
           "--warmup-least-steps beside --warmup-steps: it belongs to a warm-up that is given in epochs"},
          {"warmup-steps", given.has("warmup-steps") && given.has("warmup"),
           "--warmup-steps beside --warmup: give the warm-up in steps or in epochs, and leave the other one out"},
          {"base-batch", given.has("base-batch") && o.lr_scaling != "linear" && o.lr_scaling != "sqrt",
           "--base-batch has no meaning with --lr-scaling " + o.lr_scaling + "; it belongs to linear, sqrt"}};
}

std::vector<Rule> optimizer_rules(const Options& o, const OptionValues& given) {
  const nn::OptimizerOptions& optimizer = o.trainer.optimizer;
  const bool has_norms = optimizer.rule == ops::UpdateRule::lars || optimizer.rule == ops::UpdateRule::lamb;
  const bool is_sgd = optimizer.rule == ops::UpdateRule::sgd;
  return {{"optimizer", has_norms && o.trainer.zero && o.trainer.step.shards > 0,
           "--optimizer " + given.get<std::string>("optimizer") +
               " with --zero and --shards: the norms of parts of tensors would not have the same bits on any number of "
               "ranks; leave one of the two out"},
          belongs_to("adamw or lamb", "beta2", given),
          belongs_to("adamw or lamb", "epsilon", given),
          belongs_to("lars", "trust-coefficient", given),
          {"clip-norm", o.trainer.step.clip_norm > 0 && o.trainer.nominal_batch > 0,
           "--clip-norm beside --nominal-batch " + std::to_string(o.trainer.nominal_batch) +
               ": the gradients of single steps are added up for an update, whose norm is not known before; leave one "
               "of the two out (--nominal-batch off)"},
          {"ema-ramp", o.trainer.step.ema_ramp > 0 && o.trainer.step.ema == 0, "--ema-ramp needs --ema"},
          {"ema-statistics", o.trainer.step.ema_statistics && o.trainer.step.ema == 0, "--ema-statistics needs --ema"},
          {"nesterov", optimizer.nesterov && !is_sgd, "--nesterov belongs to --optimizer sgd"},
          {"nesterov", optimizer.nesterov && is_sgd && optimizer.momentum == 0, "--nesterov needs a momentum above 0"}};
}

/// Returns the options of the learning rate without its warm-up.
std::vector<Option> schedule_rows(Options& o) {
  nn::LearningRateSchedule& schedule = o.trainer.schedule;
  return {
      row("lr", Real{.min = 0, .max = 1e38, .above_min = true}, described("by model and optimizer"),
          "peak learning rate, before --lr-scaling; its schedule is in the header of the run", into(schedule.peak)),
      row("lr-schedule", one_of(schedules), described("by model"),
          "how the learning rate falls from its peak until the end of the run, be that given by --epochs or --steps; "
          "one-cycle also rises to the peak, in 30 % of the run",
          into(schedule.decay, value_named<Decay, schedules>)),
      row("lr-final", Real{.min = 0, .max = 1}, described("0; 4e-06 with --lr-schedule one-cycle"),
          "final learning rate of the schedules cosine, polynomial and one-cycle, as a fraction of the peak",
          into(schedule.final_fraction)),
      row("lr-by", one_of(rhythms), described("by model"),
          "whether the schedule changes the rate from step to step, after the warm-up, or from epoch to epoch, as "
          "schedulers that step once an epoch; it then spans the whole run, and the warm-up multiplies it",
          [&o](const OptionValue& rhythm) { o.lr_by_epoch = std::get<std::string>(rhythm) == "epoch"; }),
      row("lr-milestones", Text{"X,..."}, "0.5,0.75",
          "where the schedule step lowers the learning rate: fractions of the run",
          into(schedule.milestones, milestones_of)),
      row("lr-gamma", Real{.min = 0, .max = 1, .above_min = true}, "0.1",
          "factor of the schedule step at each milestone", into(schedule.gamma)),
      row("lr-power", Real{.min = 0, .max = 100, .above_min = true}, described("by model; 1 for most"),
          "power of the schedule polynomial; 1 is linear decay", into(schedule.power))};
}

/// Returns the options of the warm-up of rates and momentum.
std::vector<Option> warmup_rows(Options& o) {
  nn::LearningRateSchedule& schedule = o.trainer.schedule;
  return {
      row("warmup", Real{.min = 0, .max = 1e9}, described("by model"),
          "epochs, or a fraction of one, in which the learning rate grows linearly to its peak", into(o.warmup_epochs)),
      row("warmup-steps", Whole{0, 1'000'000'000'000}, described("by --warmup"),
          "the same in steps, instead of --warmup", into(o.warmup_steps)),
      row("warmup-least-steps", Whole{0, 1'000'000'000}, described("by model"),
          "steps that a warm-up of --warmup has at least, if it has any", into(o.least_warmup_steps)),
      row("warmup-start", Real{.min = 0, .max = 1}, described("by model; 1/(steps+1) for most"),
          "learning rate of the first step of the warm-up, as a fraction of the rate after it",
          into_optional(schedule.warmup_start)),
      row("warmup-bias-lr", Real{.min = 0, .max = 1e38}, described("by model; as of other parameters for most"),
          "learning rate of biases in the first step of the warm-up", into_optional(schedule.warmup_bias_rate)),
      row("warmup-momentum", Real{.min = 0, .max = 1, .below_max = true}, described("by model; --momentum for most"),
          "momentum of the first step of the warm-up, from which it goes linearly to --momentum",
          into_optional(schedule.warmup_momentum))};
}

/// Returns the options by which the learning rate follows the batch.
std::vector<Option> scaling_rows(Options& o) {
  return {
      row("lr-scaling",
          Word{.words = {scalings.begin(), scalings.end()}, .or_number = Real{.min = 0, .max = 1e6, .above_min = true}},
          "none", "multiply --lr by the global batch divided by --base-batch, by the square root of that, or by X",
          into(o.lr_scaling)),
      row("base-batch", Whole{1, 1'000'000'000}, described("the model's usual batch"),
          "global batch that --lr is meant for", into(o.base_batch))};
}

/// Returns the options of the rule by which weights are updated.
std::vector<Option> rule_rows(Options& o) {
  return {
      row("optimizer", one_of(optimizers), "sgd",
          "how weights are updated; the learning rate, momentum and weight decay then have defaults of their own",
          into(o.trainer.optimizer.rule, value_named<ops::UpdateRule, optimizers>), Scope::all_ranks,
          "Adam without decay is adamw with --weight-decay 0"),
      row("momentum", Real{.min = 0, .max = 1, .below_max = true}, described("by model and optimizer"),
          "momentum of sgd and lars; of adamw and lamb the decay of the gradients' mean, beta1",
          into(o.trainer.optimizer.momentum)),
      row("beta2", Real{.min = 0, .max = 1, .below_max = true}, "0.999",
          "decay of the mean of squared gradients of adamw and lamb", into(o.trainer.optimizer.beta2)),
      row("epsilon", Real{.min = 0, .max = 1}, described("1e-8; 1e-6 with lamb"),
          "added to the denominator of adamw and lamb for numerical stability", into(o.trainer.optimizer.epsilon)),
      row("trust-coefficient", Real{.min = 0, .max = 1e6, .above_min = true}, "0.001",
          "factor of the trust ratio of lars", into(o.trainer.optimizer.trust_coefficient)),
      row("nesterov", Switch{}, described("by model"), "use Nesterov momentum", into(o.trainer.optimizer.nesterov)),
      row("weight-decay", Real{.min = 0, .max = 1e38}, described("by model and optimizer"),
          "L2 weight decay; decoupled from the gradients with adamw and lamb", into(o.trainer.optimizer.weight_decay)),
      row("decay-vectors", Switch{}, described("by model; yes for most"),
          "apply weight decay, and the trust ratio of lars and lamb, to biases and to scales and shifts of "
          "normalization, too",
          into(o.trainer.optimizer.decay_vectors))};
}

/// Returns the options of what enters an update, and of averages of the weights.
std::vector<Option> update_rows(Options& o) {
  return {
      row("clip-norm", Real{0, 1e30, "off"}, "off", "clip gradients to this global L2 norm",
          into(o.trainer.step.clip_norm)),
      row("nominal-batch", Whole{0, 1'000'000'000, "off"}, described("by model; off for most"),
          "add up the gradients of several steps, and update the weights when about N samples have been seen: after "
          "N/batch steps, rounded, a number that grows from 1 during the warm-up; --weight-decay is meant for N "
          "samples and multiplied by those of an update / N. What is left at the end of an epoch is dropped",
          into(o.trainer.nominal_batch)),
      row("loss-times-batch", Switch{}, described("by model; no for most"),
          "multiply the gradients by the global batch, as if losses were summed over samples; the printed loss stays "
          "the mean",
          into(o.trainer.step.times_samples)),
      row("ema", Real{.min = 0, .max = 1, .zero = "off", .below_max = true}, described("by model; off for most"),
          "keep an exponential moving average of the weights with decay X, and evaluate with it; it spans about "
          "1/(1-X) steps: 0.99 for runs of hundreds of steps, 0.999 for thousands",
          into(o.trainer.step.ema)),
      row("ema-ramp", Real{.min = 0, .max = 1e12, .zero = "off"}, described("by model; off for most"),
          "let the decay of --ema grow: in update u it is multiplied by 1-exp(-u/X), so that the average forgets the "
          "first weights soon",
          into(o.trainer.step.ema_ramp)),
      row("ema-statistics", Switch{}, described("by model; no for most"),
          "average the running statistics of batch normalization as --ema averages the weights",
          into(o.trainer.step.ema_statistics))};
}

/// Joins lists of options.
std::vector<Option> together(std::initializer_list<std::vector<Option>> lists) {
  std::vector<Option> all;
  for (const std::vector<Option>& rows : lists) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace

std::string schedule_name(Decay decay) { return std::string(schedules.at(static_cast<std::size_t>(decay))); }

OptionGroup learning_rate_options(Options& o) {
  return {"Learning rate", together({schedule_rows(o), warmup_rows(o), scaling_rows(o)}),
          [&o](const OptionValues& given) { return learning_rate_rules(o, given); }};
}

OptionGroup optimizer_options(Options& o) {
  return {"Optimizer", together({rule_rows(o), update_rows(o)}),
          [&o](const OptionValues& given) { return optimizer_rules(o, given); }};
}

}  // namespace lockstep::train
