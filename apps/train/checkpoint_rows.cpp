// SPDX-License-Identifier: Apache-2.0
// Options of checkpoints.
#include "apps/train/option_rows.hpp"

namespace lockstep::train {

OptionGroup checkpoint_options(Options& o) {
  return {
      "Checkpoints",
      {{.name = "save-dir",
        .domain = Text{"DIR"},
        .help = "folder of the run, for checkpoints, options and metrics: DIR, or DIR-2, DIR-3, ... if it exists; "
                "with --resume last, best or auto it is DIR itself; none saves nothing",
        .otherwise = std::string(default_save_dir),
        .store = into(o.save_dir)},
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
       {.name = "resume",
        .domain = Text{"WHICH"},
        .help = "continue from a checkpoint: last, best or auto (the newest good one, if there is one) of "
                "--save-dir, or the path of a checkpoint or of a run; any number of ranks may continue",
        .store = into(o.resume),
        .conflict = [&o](const OptionValues&) {
          return o.save_dir == no_save_dir && continues_in_folder(o)
                     ? "--resume " + o.resume +
                           " means a checkpoint of --save-dir, which is none: name it, or "
                           "give --resume the path of a checkpoint"
                     : "";
        }}}};
}

}  // namespace lockstep::train
