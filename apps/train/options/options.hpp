// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/train/options/precision.hpp"
#include "apps/train/options/user_data.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/data/augment.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/train.hpp"
#include "lockstep/trainer/options.hpp"
#include "platform/ranks/agreement.hpp"
#include "workloads/finding.hpp"

namespace lockstep::train {

/// What an option changes in the model.
struct GraphEdit {
  std::string option;  ///< with its value, for messages
  /// @throws Error that says why the model cannot be changed so
  std::function<nn::Graph(const nn::Graph&)> apply;
};

/// The command line and the configuration file, checked as far as possible without data or other ranks. Once parsed
/// they do not change: what a later stage decides is a value of that stage.
struct Options {
  std::string program;  ///< the program's name, for its messages
  std::string dataset;
  std::string data_dir;
  bool full_fingerprint = false;    ///< whether ranks compare all samples of their data
  data::Augmentation augmentation;  ///< of training images of `dataset`
  UserData user_data;
  std::string model;
  nn::Stem stem = nn::Stem::by_extent;
  std::string anchors = "auto";        ///< "auto", "default", or the sizes of anchors
  std::vector<GraphEdit> graph_edits;  ///< in the order in which they are applied
  std::string algorithm = "auto";      ///< one of algorithm_names()
  std::string compress;                ///< one of backends::compression_names()
  std::string tuning;                  ///< the selection table for "auto"; empty: the cost model
  bool explain = false;
  bool explain_step = false;
  std::string device;      ///< "auto", "cpu", "cuda", or indices of GPUs
  std::string cpu_reason;  ///< why these options are for CPUs only; empty if they are not
  ComputeLibrary library;  ///< that --ops names
  Precision precision;
  bool exact = false;
  std::string kernels;                              ///< file of measured algorithms; empty: the back end's rule
  double timeout_seconds = usual_deadline.count();  ///< also limits the start if the command line is invalid
  int min_ranks = 0;  ///< the run goes on after deaths while so many ranks are left; 0: a death ends it
  std::string progress_thread = "auto";  ///< "auto", "yes" or "no"
  std::string sockets;                   ///< one of backends::socket_names()
  bool checksum = false;
  int connections = 1;
  std::string wait = "auto";
  bool check = false;               ///< whether ranks compare their calls where mismatches are not detected anyway
  std::int64_t batch_per_rank = 0;  ///< 0: `trainer.batch` is known without the number of ranks
  std::string lr_scaling;           ///< "none", "linear", "sqrt" or a number
  std::int64_t base_batch = 0;
  double warmup_epochs = 0;
  std::optional<std::int64_t> warmup_steps;  ///< instead of epochs
  std::int64_t least_warmup_steps = 0;       ///< of a warm-up that is given in epochs
  bool lr_by_epoch = false;                  ///< whether the schedule changes the rate from epoch to epoch
  std::optional<Bytes> bucket;               ///< size of a gradient bucket; empty: the device's default
  bool warmup_given = false;   ///< whether the user gave one of the two; otherwise it is the model's default
  std::optional<int> workers;  ///< threads of each rank that prepare batches; empty: the device's default
  int threads = 0;             ///< 0: as many as this rank has processors to itself
  std::string save_dir;        ///< folder of the run, or `no_save_dir`
  std::string resume;          ///< --resume; empty: a fresh start
  std::string options_file;    ///< file with the options of the run that is resumed, which were taken; empty: none
  std::string weights;         ///< file of initial weights; empty: drawn
  bool partial_weights = false;
  bool eval_only = false;
  std::string predict;          ///< files and folders of pictures to predict, with commas between; empty: none
  workloads::FindOptions find;  ///< of predictions
  bool save_txt = false;        ///< whether predicted boxes are also written as lines of labels
  bool save_conf = false;       ///< with their scores
  trainer::CheckpointOptions checkpoints;
  double max_seconds = 0;  ///< ends the run after this time; 0: no limit
  std::string metrics;
  std::string tensorboard;  ///< folder of event files, or `in_run_folder`; empty: none are written
  std::string trace;
  bool per_class = false;  ///< whether results of each class are shown
  trainer::TrainerOptions trainer;
  std::string configuration;   ///< a configuration file that repeats the run
  std::vector<Term> settings;  ///< the options that must be the same on all ranks, with their names for users
};

/// Returns the option that names the data, with its value: "--dataset mnist".
inline std::string data_option(const Options& o) {
  return o.user_data.path.empty() ? "--dataset " + o.dataset : "--data " + o.user_data.path;
}

/// Returns the name of the data for reports: "mnist", or the path of the user's own.
inline const std::string& name_of_data(const Options& o) {
  return o.user_data.path.empty() ? o.dataset : o.user_data.path;
}

inline constexpr std::string_view default_save_dir = "runs/train";
inline constexpr std::string_view no_save_dir = "none";
inline constexpr std::string_view in_run_folder = "yes";
/// Whether the run continues in the folder of another run.
inline bool continues_in_folder(const Options& o) {
  return o.resume == "last" || o.resume == "best" || o.resume == "auto";
}

/// Whether options that are not given are those of a run: of the one to resume, or of the one whose checkpoint has the
/// weights to evaluate.
inline bool takes_options_of_run(const Options& o) { return !o.resume.empty() || (o.eval_only && !o.weights.empty()); }

/// Reads the sizes of --anchors. @return nothing for its words, and if one is not above 0
std::vector<double> anchors_of(const std::string& text);

/// Reads the value of --device. @return the indices of a list; nothing for a word
std::vector<int> listed_gpus(const std::string& device);

struct CommandLine {
  Options options;
  std::string to_print;            ///< text for --help or --version instead of a run; otherwise empty
  std::vector<std::string> notes;  ///< about options that have no effect, or mean something else than they seem to
  std::string mistake;             ///< what is wrong with it, instead of the options; empty if it is valid
};

/// The file with the options of the run that --resume, or --weights beside --eval-only, means.
struct OptionsOfRun {
  std::string path;  ///< empty: there is none
  std::string text;
};

/// Parses the command line. Options of a run (`takes_options_of_run`) count where neither the command line nor --config
/// has them, except those of the machine (--device, --ops) and of one start (--max-time, --weights).
/// @param run  null: not read yet; then it is not checked how options go together if they are needed
/// @throws UsageError that names the option, its value and the possible values
CommandLine parse_options(int argc, char** argv, const Registry& registry = {}, const OptionsOfRun* run = nullptr);

/// What depends on the number of ranks.
struct GlobalBatch {
  Count samples;    ///< of a step over all ranks
  double peak = 0;  ///< learning rate, with --lr-scaling
};

/// Computes the global batch on this number of ranks. @throws UsageError if it is too small for another option
GlobalBatch global_batch(int ranks, const Options& options);

}  // namespace lockstep::train
