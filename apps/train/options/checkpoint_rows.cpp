// SPDX-License-Identifier: Apache-2.0
// Options of checkpoints and weights, and of the reports.
#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "apps/train/options/rows.hpp"
#include "observe/progress_display.hpp"

namespace lockstep::train {
namespace {

using namespace cli;

/// A new run needs a folder with a name, because "-2" behind "." or ".." would be another, hidden one.
Rule needs_a_name(const Options& o) {
  const std::filesystem::path path(o.save_dir);
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const bool has_name = !name.empty() && name != "." && name != "..";
  return {"save-dir", !has_name && !continues_in_folder(o) && !o.eval_only,
          "--save-dir " + o.save_dir +
              " exists, and a new run makes a folder of its own: give it a name, such as --save-dir " +
              (path / "run").string() + "; --resume last continues the run in " + o.save_dir};
}

/// Returns the options on the command line that only training uses, as "--lr, --epochs".
std::string unused_by_evaluation(const OptionValues& given) {
  constexpr std::string_view used[] = {"batch", "batch-per-rank", "label-smoothing"};
  std::string unused;
  for (const char* title : {"Optimizer", "Learning rate", "Training"})
    for (const OptionGroup& group : given.program().groups)
      for (const Option& option : group.options)
        if (group.title == title && given.is_on_command_line(option.name) &&
            std::find(std::begin(used), std::end(used), option.name) == std::end(used))
          unused += (unused.empty() ? "--" : ", --") + option.name;
  return unused;
}

/// Whether --weights counts. Before --resume, those of a configuration file do not: options.conf of a fine-tuning run
/// has them, and the run goes on by the same file.
std::vector<Rule> weights_rules(const Options& o, const OptionValues& given) {
  const bool resumes = !o.resume.empty() && o.resume != "auto";  // begins with a checkpoint's weights, for certain
  const bool loads = !o.weights.empty() && (!resumes || given.is_on_command_line("weights"));
  const bool loads_some = loads && o.partial_weights;
  const std::string unused = unused_by_evaluation(given);
  return {{"weights", loads && resumes,
           "--weights beside --resume " + o.resume +
               ", which continues with the weights of the checkpoint: leave one of the two out (beside --resume auto, "
               "--weights is for the fresh start)"},
          {"partial-weights", o.partial_weights && !given.has("weights"), "--partial-weights needs --weights FILE"},
          {"eval-only", o.eval_only && loads == resumes,
           "--eval-only needs weights: give either --weights FILE, or --resume last, best or PATH"},
          {"eval-only", o.eval_only && loads != resumes && loads_some,
           "--eval-only beside --partial-weights would evaluate weights that were not trained"},
          {"eval-only", o.eval_only && loads != resumes && !loads_some && !unused.empty(),
           "--eval-only trains nothing, so leave out " + unused + "; in a --config file they may stay"}};
}

std::vector<Rule> checkpoint_rules(const Options& o, const OptionValues& given) {
  const bool saves = o.save_dir != no_save_dir;
  std::vector<Rule> rules = {
      needs_a_name(o),
      {"best", given.has("best") && o.trainer.eval_interval == 0,
       "--best " + o.trainer.best_metric + " has no meaning with --eval-interval never"},
      {"save-fallback", !saves && !o.checkpoints.fallback.empty(),
       "--save-fallback has no meaning with --save-dir none: leave one of the two out"},
      {"resume", !saves && continues_in_folder(o),
       "--resume " + o.resume +
           " means a checkpoint of --save-dir, which is none: name it, or give --resume the path of a checkpoint"}};
  if (!o.predict.empty()) {
    rules.push_back({"save-dir", !saves, "--save-dir none beside --predict, which writes there: name a folder"});
    rules.push_back(
        {"predict", o.resume.empty() || continues_in_folder(o),
         "--predict needs the model of a run: give --resume PATH, the folder of the run or of a checkpoint"});
  }
  for (Rule& rule : weights_rules(o, given)) rules.push_back(std::move(rule));
  return rules;
}

/// Reads the value of --tensorboard, which may be a word as programs with VisualDL have it, such as "true".
std::string event_folder(const std::string& value) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, value) != words.end();
  };
  if (is_one_of({"no", "false", "False", "off", "0"})) return {};
  return is_one_of({"yes", "true", "True", "on", "1"}) ? std::string(in_run_folder) : value;
}

std::vector<Rule> report_rules(const Options& o, const OptionValues& given) {
  return {{"explain", o.explain && o.algorithm == "mpi",
           "--explain has no meaning with --algorithm mpi: how the MPI library chooses is not known here"},
          {"tensorboard", !o.eval_only && o.save_dir == no_save_dir && o.tensorboard == in_run_folder,
           "--tensorboard writes into --save-dir, which is none: name a folder, --tensorboard DIR"},
          {"tensorboard", o.eval_only && !o.tensorboard.empty() && given.is_on_command_line("tensorboard"),
           "--tensorboard shows steps, and --eval-only trains none: use --metrics FILE"}};
}

}  // namespace

OptionGroup checkpoint_options(Options& o) {
  return {
      "Checkpoints and weights",
      {row("save-dir", Text{"DIR"}, std::string(default_save_dir),
           "folder of the run, for checkpoints, options and metrics: DIR, or DIR-2, DIR-3, ... if it exists; with "
           "--resume last, best or auto it is DIR itself; none saves nothing",
           into(o.save_dir)),
       row("save-interval", Whole{1, 1'000'000'000, "never"}, "1",
           "save a checkpoint after every Nth epoch; the end of the run and the best evaluation are saved anyway",
           into(o.checkpoints.epochs)),
       row("save-steps", Whole{1, 1'000'000'000, "never"}, "never", "save a checkpoint after every Nth step, too",
           into(o.checkpoints.steps)),
       row("best", Text{"METRIC"},
           described("accuracy, or loss for models without it; miou for segmentation, fitness for detectors"),
           "metric whose best evaluation the link best names: a metric of the model, such as accuracy or loss",
           into(o.trainer.best_metric)),
       row("keep", Whole{1, 1'000'000}, "3", "keep the newest N checkpoints, beside the best one",
           into(o.checkpoints.keep)),
       row("save-fallback", Text{"DIR"}, no_default,
           "another folder of a run, which gets a checkpoint that cannot be written into --save-dir, for example "
           "because the disk is full; --resume auto looks there, too",
           [&o](const OptionValue& folder) { o.checkpoints.fallback = std::get<std::string>(folder); }),
       row("resume", Text{"WHICH", "last"}, no_default,
           "continue from a checkpoint: last, best or auto (the newest good one, if there is one) of --save-dir, "
           "or the path of a checkpoint or of a run; without a value: last. Options that are not given are those "
           "of the run, but for --device, --ops and --max-time. Any number of ranks may continue",
           into(o.resume)),
       row("weights", Text{.placeholder = "FILE", .may_be_empty = true}, no_default,
           "begin with the weights of FILE: model.safetensors of a checkpoint, or a safetensors file of a PyTorch "
           "state_dict(); all must fit, but for a head for other classes. Else, or with '', --seed draws them",
           into(o.weights)),
       row("partial-weights", Switch{}, "no",
           "load the tensors of --weights that fit by name and shape, even if more than a head does not, and draw "
           "the others",
           into(o.partial_weights)),
       row("predict", Text{.placeholder = "PATH...", .is_list = true}, no_default,
           "predict the class of pictures, or the boxes in them, files or folders with blanks or commas between, with "
           "the model of --resume PATH, and end: one JSON object a picture in predictions.jsonl, and the pictures with "
           "their labels, in --save-dir (runs/predict)",
           into(o.predict)),
       row("eval-only", Switch{}, "no",
           "evaluate the weights of --weights or --resume on the test set, and end; nothing is trained or saved. "
           "The data set and all other options are those of the run whose checkpoint it is",
           into(o.eval_only))},
      [&o](const OptionValues& given) { return checkpoint_rules(o, given); }};
}

OptionGroup report_options(Options& o) {
  return {
      "Reports",
      {row("compare-every", Whole{0, 1'000'000'000, "never"}, "100",
           "steps from one comparison of all ranks' weights to the next, by a hash", into(o.trainer.compare_every)),
       row("eval-interval", Whole{1, 1'000'000'000, "never"}, "1",
           "evaluate after every Nth epoch and at the end, or never", into(o.trainer.eval_interval)),
       row("log-every", Whole{1, 1'000'000'000}, "50", "steps from one step event in --metrics to the next",
           into(o.trainer.log_every), Scope::each_rank),
       row("metrics", Text{"FILE"}, no_default,
           "append one JSON object per line to FILE: start, step (loss, learning_rate), epoch (train_loss, and "
           "each metric of the test set: val_loss, val_accuracy, ...) and end; with --eval-only evaluation in place "
           "of step and epoch",
           into(o.metrics), Scope::each_rank),
       row("per-class", Switch{}, "no",
           "at the end, print samples, recall, precision and F1 of each class, and which classes are taken for which "
           "others; --metrics gets an event classes",
           into(o.per_class)),
       row(
           "stragglers", Switch{}, "no",
           "print the slow ranks every few seconds, too, with what they lose time on: data or computing; the table "
           "has the slowest one of each epoch anyway",
           [&o](const OptionValue& value) {
             o.trainer.straggler_seconds = std::get<bool>(value) ? observe::ProgressOptions{}.interval_seconds : 0;
           },
           Scope::each_rank),
       row("tensorboard", Text{"DIR", std::string(in_run_folder)}, "no",
           "write event files for TensorBoard into DIR, or without a value into --save-dir: loss, metrics, learning "
           "rate, images/s, and a step's time for data, computing and communication",
           into(o.tensorboard, event_folder)),
       row("trace", Text{"FILE"}, no_default,
           "write a timeline of all ranks to FILE, for chrome://tracing or ui.perfetto.dev", into(o.trace),
           Scope::each_rank),
       row("explain", Switch{}, "no", "print which algorithm all-reduces each bucket of gradients, and why",
           into(o.explain), Scope::each_rank),
       row("explain-step", Switch{}, "no",
           "print the time, the kernel and the fraction of the roofline of each operator of a step",
           into(o.explain_step))},
      [&o](const OptionValues& given) { return report_rules(o, given); }};
}

}  // namespace lockstep::train
