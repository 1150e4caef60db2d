// SPDX-License-Identifier: Apache-2.0
// Options of the data, the model and the training.
#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <system_error>

#include "apps/train/options/rows.hpp"
#include "base/nearest.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::train {
namespace {

using namespace cli;

/// What augments a data set of --dataset.
constexpr std::array<std::string_view, 3> augmentations = {"none", "crop", "flip"};
constexpr const char* usual_augmentation = "auto";
/// In the order of `nn::Stem`.
constexpr std::array<std::string_view, 3> stems = {"auto", "cifar", "imagenet"};
/// In the order of `InitialValues`.
constexpr std::array<std::string_view, 2> initial_values = {"broadcast", "compare"};
constexpr const char* no_early_stop = "off";
constexpr std::array<std::string_view, 2> anchor_words = {"auto", "default"};

data::Augmentation augmentation_of(const std::string& words) {
  data::Augmentation augmentation;
  for (const std::string& word : words_of(words)) {
    augmentation.crop |= word == "crop";
    augmentation.flip |= word == "flip";
  }
  return augmentation;
}

/// Returns what is wrong with a word of --augment beside --dataset; empty if all can stand there.
std::string unknown_augmentation(const std::string& words) {
  for (const std::string& word : words_of(words))
    if (std::ranges::find(augmentations, word) == augmentations.end() && words != usual_augmentation)
      return unknown("augmentation", word, augmentations) + "; pictures of --data have more";
  return {};
}

/// Reads "METRIC:N"; a patience of 0 if that is not what it says.
trainer::EarlyStop early_stop_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  trainer::EarlyStop stop{.metric = text.substr(0, colon)};
  if (colon == std::string::npos || stop.metric.empty()) return stop;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, stop.patience);
  if (read.ec != std::errc() || read.ptr != end || stop.patience < 0) stop.patience = 0;
  return stop;
}

/// Adds the graph edit that smooths labels.
void smooth_labels(Options& o, double fraction) {
  if (fraction == 0) return;
  o.graph_edits.push_back({"--label-smoothing " + text_of(fraction),
                           [fraction](const nn::Graph& graph) { return nn::smooth_labels(graph, fraction); }});
}

std::vector<Rule> anchor_rules(const Options& o, const Registry& registry, const OptionValues& given) {
  const bool is_word = std::ranges::find(anchor_words, o.anchors) != anchor_words.end();
  const bool has_anchors = !o.model.empty() && !registry.models.usual_anchors(o.model).empty();
  return {{"anchors", given.has("anchors") && !has_anchors,
           "--anchors has no meaning with --model " + o.model + ", which has no anchors"},
          {"anchors", !is_word && anchors_of(o.anchors).empty(),
           "--anchors " + o.anchors +
               ": give auto, default, or the width and height of each anchor in pixels, all above "
               "0, such as 10,13,16,30"}};
}

std::vector<Rule> data_rules(const Options& o, const Registry& registry, const OptionValues& given) {
  // Values that have not been stored, in a program that only reads or writes a configuration file, break no rule.
  const data::Directory directory =
      o.dataset.empty() ? data::Directory::optional : registry.datasets.directory(o.dataset);
  const bool has_folder = given.has("data-dir");
  const auto augment = given.get<std::string>("augment");
  const bool is_named = o.user_data.path.empty();
  const std::string wrong = is_named ? unknown_augmentation(augment) : "";
  std::vector<Rule> rules = {
      {"data-dir", is_named && has_folder && directory == data::Directory::none,
       "--data-dir has no meaning with --dataset " + o.dataset +
           ", which the program draws by itself; did you mean --dataset mnist or cifar10?"},
      {"data-dir", is_named && !has_folder && directory == data::Directory::required,
       "--dataset " + o.dataset + " needs --data-dir, the folder with its files"},
      {"stem", o.stem != nn::Stem::by_extent && !registry.models.stem(o.model, {.tensors = {}, .stem = o.stem}),
       "--stem " + given.get<std::string>("stem") + " has no meaning with --model " + o.model +
           ", whose first layers have one form"},
      {"augment", !wrong.empty(), "--augment " + augment + ": " + wrong},
      {"augment", augment.find("none") != std::string::npos && augment != "none",
       "--augment " + augment + ": none cannot stand beside other words"}};
  std::ranges::move(anchor_rules(o, registry, given), std::back_inserter(rules));
  return rules;
}

std::vector<Rule> training_rules(const Options& o, const OptionValues& given) {
  const auto text = given.get<std::string>("early-stop");
  const bool stops_early = text != no_early_stop;
  const bool is_valid = o.trainer.early_stop.patience > 0;
  return {{"early-stop", stops_early && !is_valid,
           "--early-stop " + text + ": it must be a metric and a whole number of at least 1, such as accuracy:5, or " +
               no_early_stop},
          {"early-stop", stops_early && is_valid && o.trainer.eval_interval == 0,
           "--early-stop " + text + " has no meaning with --eval-interval never"},
          {"batch-per-rank", given.has("batch-per-rank") && given.has("batch"),
           "--batch-per-rank beside --batch: give the samples of a step for each rank or for all together, and leave "
           "the other one out"},
          at_most_a_sample_each("accumulate", o.trainer.step.accumulate, o.trainer.batch)};
}

}  // namespace

std::vector<double> anchors_of(const std::string& text) {
  std::vector<double> sizes;
  for (const std::string& word : words_of(text)) {
    double size = 0;
    const char* const end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, size);
    if (read.ec != std::errc() || read.ptr != end || !(size > 0) || size > 1e6) return {};
    sizes.push_back(size);
  }
  return sizes;
}

Rule at_most_a_sample_each(const std::string& option, int parts, Count batch) {
  return {option, batch.value > 0 && parts > batch.value,
          "--" + option + ' ' + std::to_string(parts) + " cuts a --batch of " + std::to_string(batch.value) +
              " into parts without samples; take at most that many, or a larger --batch"};
}

OptionGroup data_options(Options& o, const Registry& registry) {
  return {
      "Data and model",
      {row("dataset", one_of(registry.datasets.names()), registry.dataset,
           "training data set; the synthetic ones are drawn and need no files", into(o.dataset)),
       row("data-dir", Text{"DIR"}, no_default,
           "folder with the files of the data set: for mnist the four IDX files, which may end in .gz, for cifar10 "
           "the six files of the binary version, which mpi-scripts/cifar10.py also makes of images",
           into(o.data_dir), Scope::each_rank),
       row("full-fingerprint", Switch{}, "no",
           "compare all samples of all ranks' data sets before the run, by a hash; otherwise as many as make 1 "
           "GiB, and 64 of data that need no files",
           into(o.full_fingerprint)),
       row("augment", Text{"NAME[:VALUE],..."}, usual_augmentation,
           "change training images at random, the same on any number of ranks: crop moves them by up to 4 pixels, flip "
           "mirrors half of them; pictures of --data also take " +
               vision::transform_names() + ". auto is none for --dataset, and for --data what fits the pictures",
           [&o](const OptionValue& words) {
             const auto& text = std::get<std::string>(words);
             o.augmentation = augmentation_of(text);
             o.user_data.augment = text == usual_augmentation ? "" : text;
           }),
       row("model", one_of(registry.models.names()), registry.model, "network to train", into(o.model)),
       row("stem", one_of(stems), "auto",
           "first layers of models that have both: cifar keeps the extent of small images, imagenet is "
           "torchvision's; auto: cifar below 64 pixels, but imagenet for resnet50",
           into(o.stem, value_named<nn::Stem, stems>)),
       row("anchors", Text{"auto|default|W,H,..."}, "auto",
           "anchors of yolov5n and yolov5s, in pixels of the network's input, the smallest first; auto: those of the "
           "weights or of the model, unless at most 98 % of the boxes to train on can match one, and then the means of "
           "the boxes' sizes (k-means)",
           into(o.anchors)),
       row("initial", one_of(initial_values), "broadcast",
           "how all ranks get the same initial weights: broadcast rank 0's, or compare everybody's",
           into(o.trainer.initial, value_named<InitialValues, initial_values>)),
       row("freeze", Text{"NAME,..."}, no_default,
           "parameters not to train: full names, or prefixes up to a dot, such as layer1",
           into(o.trainer.optimizer.frozen, words_of)),
       row("seed", Whole{0, std::numeric_limits<std::int64_t>::max()}, "1",
           "seed of the initial weights, of the order of samples and of drawn data", into(o.trainer.seed))},
      [&o, &registry](const OptionValues& given) { return data_rules(o, registry, given); }};
}

OptionGroup training_options(Options& o) {
  return {
      "Training",
      {row("epochs", Whole{1, 1'000'000'000}, described("by model"), "passes over the training set",
           into(o.trainer.epochs)),
       row("steps", Whole{0, 1'000'000'000'000, "all"}, "all",
           "stop after N steps; the learning-rate schedule then spans these N steps", into(o.trainer.steps)),
       row("early-stop", Text{"METRIC:N"}, no_early_stop,
           "end the run, completed, when a metric of the test set has not become better in N evaluations in a row; for "
           "example accuracy:5 or loss:5",
           into(o.trainer.early_stop, early_stop_of)),
       row("max-time", Duration{"off"}, "off",
           "stop after this time, as at SIGTERM: with a checkpoint and exit code 3; it counts from the program's "
           "start, and the last step and the checkpoint come on top",
           [&o](const OptionValue& time) { o.max_seconds = seconds_of(std::get<std::string>(time)).value_or(0); }),
       row("batch", Whole{1, 1'000'000'000}, described("by model"),
           "global batch: samples of a step, over all ranks together", into(o.trainer.batch.value)),
       row("batch-per-rank", Whole{1, 1'000'000'000}, described("by --batch"),
           "samples of a step on each rank, instead of --batch: the global batch grows with the number of ranks; see "
           "--lr-scaling",
           into(o.batch_per_rank)),
       row("drop-last", Switch{}, "no",
           "leave out the last batch of an epoch if it is smaller than the others; each epoch leaves out other samples",
           into(o.trainer.drop_last)),
       row("label-smoothing", Real{0, 1, "off"}, "off",
           "spread this fraction of each label evenly over all classes; the losses that are printed include it",
           [&o](const OptionValue& fraction) { smooth_labels(o, std::get<double>(fraction)); }),
       row("accumulate", Whole{1, 65536}, "1", "micro-batches per step on each rank, with one update: saves memory",
           into(o.trainer.step.accumulate)),
       row("sync-bn", Switch{}, "no",
           "synchronize batch normalization: mean and variance over the global batch instead of each rank's samples",
           into(o.trainer.sync_batch_norm))},
      [&o](const OptionValues& given) { return training_rules(o, given); }};
}

}  // namespace lockstep::train
