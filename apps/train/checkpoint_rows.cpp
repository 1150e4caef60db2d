// SPDX-License-Identifier: Apache-2.0
// Options of checkpoints.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "apps/train/option_rows.hpp"

namespace lockstep::train {
namespace {

/// Whether the run begins with the weights of a checkpoint, for certain.
bool takes_weights_of_checkpoint(const Options& o) { return !o.resume.empty() && o.resume != "auto"; }

/// Whether --weights counts. Before --resume, those of a configuration file do not: options.conf of a fine-tuning run
/// has them, and the run goes on by the same file.
bool loads_weights(const Options& o, const OptionValues& given) {
  return !o.weights.empty() && (!takes_weights_of_checkpoint(o) || given.is_on_command_line("weights"));
}

/// A new run needs a folder with a name, because "-2" behind "." or ".." would be another, hidden one.
std::string conflict_of_save_dir(const Options& o) {
  const std::filesystem::path path(o.save_dir);
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const bool has_name = !name.empty() && name != "." && name != "..";
  if (has_name || continues_in_folder(o) || o.eval_only) return "";
  return "--save-dir " + o.save_dir + " exists, and a new run makes a folder of its own: give it a name, such as " +
         "--save-dir " + (path / "run").string() + "; --resume last continues the run in " + o.save_dir;
}

std::string conflict_of_eval_only(const Options& o, const OptionValues& given) {
  if (!o.eval_only) return "";
  if (loads_weights(o, given) == takes_weights_of_checkpoint(o))
    return "--eval-only needs weights: give either --weights FILE, or --resume last, best or PATH";
  if (o.partial_weights && loads_weights(o, given))
    return "--eval-only beside --partial-weights would evaluate weights that were not trained";
  Options scratch;
  std::vector<Option> rows = optimizer_options(scratch).options;
  for (const OptionGroup& group : {learning_rate_options(scratch), training_options(scratch)})
    rows.insert(rows.end(), group.options.begin(), group.options.end());
  std::string unused;
  for (const Option& row : rows) {
    const bool changes_evaluation =
        row.name == "batch" || row.name == "batch-per-rank" || row.name == "label-smoothing";
    if (given.is_on_command_line(row.name) && !changes_evaluation)
      unused += (unused.empty() ? "--" : ", --") + row.name;
  }
  return unused.empty() ? ""
                        : "--eval-only trains nothing, so leave out " + unused + "; in a --config file they may stay";
}

std::vector<Option> weights_options(Options& o) {
  return {
      {.name = "weights",
       .domain = Text{.placeholder = "FILE", .may_be_empty = true},
       .help = "begin with the weights of FILE: model.safetensors of a checkpoint, or a safetensors file of PyTorch's "
               "model.state_dict(); all tensors must fit. Without it, or with '', weights are drawn by --seed",
       .store = into(o.weights),
       .conflict =
           [&o](const OptionValues& given) {
             return !loads_weights(o, given) || !takes_weights_of_checkpoint(o)
                        ? ""
                        : "--weights beside --resume " + o.resume +
                              ", which continues with the weights of the checkpoint: leave one of the two out (beside "
                              "--resume auto, --weights is for the fresh start)";
           }},
      {.name = "partial-weights",
       .domain = Switch{},
       .help = "load the tensors of --weights that fit by name and shape, such as all but a head for other classes, "
               "and draw the others",
       .otherwise = "no",
       .store = into(o.partial_weights),
       .conflict =
           [&o](const OptionValues& given) {
             return o.partial_weights && !given.has("weights") ? "--partial-weights needs --weights FILE" : "";
           }},
      {.name = "eval-only",
       .domain = Switch{},
       .help = "evaluate the weights of --weights or --resume on the test set, and end; nothing is trained or saved. "
               "The data set and all other options are those of the run whose checkpoint it is",
       .otherwise = "no",
       .store = into(o.eval_only),
       .conflict = [&o](const OptionValues& given) { return conflict_of_eval_only(o, given); }}};
}

}  // namespace

OptionGroup checkpoint_options(Options& o) {
  OptionGroup group{
      "Checkpoints and weights",
      {{.name = "save-dir",
        .domain = Text{"DIR"},
        .help = "folder of the run, for checkpoints, options and metrics: DIR, or DIR-2, DIR-3, ... if it exists; "
                "with --resume last, best or auto it is DIR itself; none saves nothing",
        .otherwise = std::string(default_save_dir),
        .store = into(o.save_dir),
        .conflict = [&o](const OptionValues&) { return conflict_of_save_dir(o); }},
       {.name = "save-interval",
        .domain = Whole{1, 1'000'000'000, "never"},
        .help = "save a checkpoint after every Nth epoch; the end of the run and the best evaluation are saved anyway",
        .otherwise = "1",
        .store = into(o.checkpoints.epochs)},
       {.name = "save-steps",
        .domain = Whole{1, 1'000'000'000, "never"},
        .help = "save a checkpoint after every Nth step, too",
        .otherwise = "never",
        .store = into(o.checkpoints.steps)},
       {.name = "best",
        .domain = Text{"METRIC"},
        .help = "metric whose best evaluation the link best names: a metric of the model, such as accuracy or loss",
        .default_text = "accuracy; loss for models without it",
        .store = into(o.trainer.best_metric),
        .conflict =
            [&o](const OptionValues& given) {
              return given.has("best") && o.trainer.eval_interval == 0
                         ? "--best " + o.trainer.best_metric + " has no meaning with --eval-interval never"
                         : "";
            }},
       {.name = "keep",
        .domain = Whole{1, 1'000'000},
        .help = "keep the newest N checkpoints, beside the best one",
        .otherwise = "3",
        .store = into(o.checkpoints.keep)},
       {.name = "save-fallback",
        .domain = Text{"DIR"},
        .help = "another folder of a run, which gets a checkpoint that cannot be written into --save-dir, for example "
                "because the disk is full; --resume auto looks there, too",
        .store = [&o](const OptionValue& folder) { o.checkpoints.fallback = std::get<std::string>(folder); },
        .conflict =
            [&o](const OptionValues&) {
              return o.save_dir == no_save_dir && !o.checkpoints.fallback.empty()
                         ? "--save-fallback has no meaning with --save-dir none: leave one of the two out"
                         : "";
            }},
       {.name = "resume",
        .domain = Text{"WHICH", "last"},
        .help = "continue from a checkpoint: last, best or auto (the newest good one, if there is one) of --save-dir, "
                "or the path of a checkpoint or of a run; without a value: last. Options that are not given are those "
                "of the "
                "run, but for --device, --ops and --max-time. Any number of ranks may continue",
        .store = into(o.resume),
        .conflict = [&o](const OptionValues&) {
          return o.save_dir == no_save_dir && continues_in_folder(o)
                     ? "--resume " + o.resume +
                           " means a checkpoint of --save-dir, which is none: name it, or "
                           "give --resume the path of a checkpoint"
                     : "";
        }}}};
  std::vector<Option> weights = weights_options(o);
  std::move(weights.begin(), weights.end(), std::back_inserter(group.options));
  return group;
}

}  // namespace lockstep::train
