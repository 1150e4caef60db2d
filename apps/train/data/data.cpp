// SPDX-License-Identifier: Apache-2.0
#include "apps/train/data/data.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "base/wrapped.hpp"
#include "data/fingerprint.hpp"

namespace lockstep::train {
namespace {

std::string hexadecimal(std::uint64_t number) {
  return format_text("%016llx", static_cast<unsigned long long>(number));
}

std::int64_t bytes_of_sample(const data::Dataset& part) {
  std::int64_t bytes = 1;
  for (const TensorSpec& tensor : part.tensors()) bytes += 4 * tensor.elements();
  return bytes;
}

/// How many of a part's samples are hashed, at equal distances.
struct SampledHash {
  std::int64_t recorded = 0;  ///< for the hash of the data that a checkpoint records
  std::int64_t compared = 0;  ///< for the comparison of ranks
};

/// Data without files take longer to make than files take to read, so only a few of their samples are hashed, unless
/// --full-fingerprint asks for all.
SampledHash samples_to_hash(const data::Dataset& part, data::Directory directory, const Options& options) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  constexpr std::int64_t few = 64;
  const std::int64_t many = std::max<std::int64_t>(1, most_bytes / bytes_of_sample(part));
  SampledHash hash{.recorded = directory == data::Directory::required ? many : few};
  const bool may_be_read = directory == data::Directory::optional && !options.data_dir.empty();
  hash.compared = options.full_fingerprint ? part.size() : may_be_read ? std::max(few, many) : hash.recorded;
  return hash;
}

void add_hashes(const data::Dataset& part, const std::string& name, std::int64_t samples, const std::string& with,
                std::vector<Term>& terms) {
  for (const auto& [tensor, hash] : data::fingerprint(part, samples))
    terms.push_back({name + ' ' + tensor + with, hexadecimal(hash)});
}

/// A part of the data of --dataset, with its name for messages.
struct NamedPart {
  const data::Dataset& part;
  std::string name;
};

/// Returns what must be the same on all ranks, and what a checkpoint records: the tensors of samples.
std::vector<Term> tensor_terms(const NamedPart& of, std::int64_t samples) {
  std::vector<Term> terms = {{of.name + " samples", std::to_string(of.part.size())},
                             {of.name + " classes", std::to_string(of.part.classes())}};
  add_hashes(of.part, of.name, samples, " with hash", terms);
  return terms;
}

/// As `tensor_terms`, of what the pictures are stored as.
std::vector<Term> stored_terms(const NamedPart& of, const vision::Source& source, const Options& options) {
  std::vector<Term> terms = {{of.name + " samples", std::to_string(of.part.size())},
                             {of.name + " classes", std::to_string(of.part.classes())}};
  for (const auto& [term, hash] : vision::fingerprint(source, options.full_fingerprint).terms)
    if (term != "files")  // whose names may differ, as with and without .gz
      terms.push_back({of.name + ' ' + term + " with hash", hexadecimal(hash)});
  return terms;
}

void record(const std::vector<Term>& terms, Fnv1a& recorded) {
  for (const Term& term : terms) recorded.add(term.name + ' ' + term.value);
}

/// Adds what must be the same on all ranks, and the hash by which a run that resumes knows its data.
void describe(const Options& options, data::Directory directory, Agreement& agreement, Data& loaded) {
  Fnv1a recorded;
  Fnv1a older;
  for (const NamedPart& of : {NamedPart{*loaded.sets.train, "training"}, NamedPart{*loaded.sets.test, "test"}}) {
    const SampledHash hash = samples_to_hash(of.part, directory, options);
    if (const auto* pictures = dynamic_cast<const vision::PictureDataset*>(&of.part)) {
      std::vector<Term> terms = stored_terms(of, pictures->source(), options);
      record(terms, recorded);
      agreement.add(std::move(terms));
      if (!options.resume.empty()) record(tensor_terms(of, hash.recorded), older);
      continue;
    }
    std::vector<Term> terms = tensor_terms(of, hash.recorded);
    record(terms, recorded);
    const std::int64_t compared = std::min(hash.compared, of.part.size());
    if (compared > hash.recorded)
      add_hashes(of.part, of.name, compared, " with hash of " + std::to_string(compared) + " samples", terms);
    agreement.add(std::move(terms));
  }
  loaded.fingerprint = hexadecimal(recorded.value());
  if (!options.resume.empty()) loaded.older_fingerprint = hexadecimal(older.value());
}

/// Augments the training images. A run that resumes has to do so, too.
/// @throws UsageError if the data set does not allow it
void augment(const Options& options, Data& loaded) {
  const std::string how = options.augmentation.text();
  try {
    loaded.sets.train = data::augmented(loaded.sets.train, options.augmentation);
  } catch (const Error& error) {
    throw UsageError("--augment " + how + " with --dataset " + options.dataset + ": " + error.message() +
                     "; leave --augment out, or choose images with a label each");
  }
  for (std::string* fingerprint : {&loaded.fingerprint, &loaded.older_fingerprint})
    if (!fingerprint->empty()) *fingerprint += " augmented by " + how;
}

observe::RunLength length_of(const trainer::TrainerOptions& options, Count batch, const data::Dataset& train) {
  const std::int64_t whole = train.size() / batch.value;
  const bool is_complete = options.drop_last || train.size() % batch.value == 0;
  const std::int64_t per_epoch = std::max<std::int64_t>(1, is_complete ? whole : whole + 1);
  const std::int64_t in_all_epochs = options.epochs * per_epoch;
  return {.steps = options.steps > 0 ? std::min(options.steps, in_all_epochs) : in_all_epochs,
          .steps_per_epoch = per_epoch,
          .images_per_epoch = {std::min(per_epoch * batch.value, train.size())},
          .batch = batch,
          .eval_interval = options.eval_interval};
}

/// Returns the warm-up in steps of this data set. The model's default is shortened if the run is too short for it, and
/// left out before one cycle, which has its own; a warm-up that the user gave is used as it is. Beside a schedule from
/// epoch to epoch it may be longer than the run.
/// @throws UsageError
std::int64_t warmup_of(const Options& options, const observe::RunLength& run) {
  if (options.trainer.schedule.decay == nn::Decay::one_cycle) return 0;
  const std::int64_t in_epochs = nn::warmup_steps(options.warmup_epochs, run.steps_per_epoch);
  const std::int64_t steps =
      options.warmup_steps.value_or(in_epochs == 0 ? 0 : std::max(in_epochs, options.least_warmup_steps));
  if (options.lr_by_epoch) return steps;
  if (!options.warmup_given) return std::min(steps, run.steps / 2);
  if (steps < run.steps) return steps;
  throw UsageError((options.warmup_steps ? "--warmup-steps" : "--warmup") + std::string(": a warm-up over ") +
                   std::to_string(steps) + " steps must end within the run's " + std::to_string(run.steps) +
                   " steps: shorten it, or train for longer" +
                   (options.warmup_steps ? ""
                                         : "; --warmup is in epochs, of " + std::to_string(run.steps_per_epoch) +
                                               " steps each, and --warmup-steps in steps"));
}

}  // namespace

Data load_data(const Cluster& cluster, const Options& options, const data::Datasets& datasets,
               const workloads::PictureTask& task, const std::optional<nn::ModelDescription>& known,
               const nn::DataSpec& example, Agreement& agreement) {
  Data loaded{.batch = cluster.batch.samples, .schedule = options.trainer.schedule};
  const bool predicts = !options.predict.empty();
  if (predicts || !options.user_data.path.empty()) {
    loaded.pictures =
        predicts ? open_predicted(options, task, known.value())
                 : open_pictures(options, task, known ? known->class_names : std::vector<std::string>(), example);
    loaded.sets = make_datasets(*loaded.pictures, options, nullptr);
    Fnv1a recorded;
    add_terms(*loaded.pictures, agreement, recorded);
    loaded.fingerprint = hexadecimal(recorded.value());
    return loaded;
  }
  loaded.sets = datasets.load(options.dataset, {.data_dir = options.data_dir, .seed = options.trainer.seed});
  const Phase phase(cluster.world.group(), "hashing the data set", Phase::Kind::work);
  describe(options, datasets.directory(options.dataset), agreement, loaded);
  return loaded;
}

void group_evaluated(const Cluster& cluster, const Options& options, const workloads::PictureTask& task, Data& loaded) {
  const bool has_pictures = !options.predict.empty() || !options.user_data.path.empty();
  if (!has_pictures || !options.user_data.show_batch.empty()) return;
  const bool is_loaded = loaded.sets.train != nullptr;
  group_evaluated(is_loaded ? &*loaded.pictures : nullptr, options, task, cluster.world);
  if (is_loaded && !loaded.pictures->groups.empty()) loaded.sets = make_datasets(*loaded.pictures, options, nullptr);
}

void use_cache(const Cluster& cluster, const Options& options, Data& loaded) {
  if (!loaded.pictures) return;
  if (const auto cache = make_cache(*loaded.pictures, options, cluster, loaded.fingerprint))
    loaded.sets = make_datasets(*loaded.pictures, options, cache);
}

void fit_to_run(const Cluster& cluster, const Options& options, const workloads::PictureTask& task, Data& loaded) {
  if (loaded.pictures) require_fit(*loaded.pictures, options, task);
  if (!loaded.pictures && options.augmentation.changes_images()) augment(options, loaded);
  const data::Dataset& train = *loaded.sets.train;
  if (options.eval_only)  // no step is taken: a larger batch does no harm, and there may be fewer pictures than ranks
    loaded.batch.value =
        std::max<std::int64_t>(cluster.world.group().size(), std::min(loaded.batch.value, train.size()));
  loaded.length = length_of(options.trainer, loaded.batch, train);
  loaded.schedule.peak = cluster.batch.peak;
  if (options.lr_by_epoch) loaded.schedule.steps_per_epoch = loaded.length.steps_per_epoch;
  if (!options.eval_only) loaded.schedule.warmup_steps = warmup_of(options, loaded.length);
}

Phase::Seconds hashing_time(const Options& options, const data::DatasetPair& sets) {
  constexpr double slowest_bytes_per_second = 10e6;  // of a data set that is generated, or on a slow disk
  constexpr Phase::Seconds unknown{86400};           // how large the other ranks' data are
  if (!options.full_fingerprint) return Phase::Seconds(0);
  if (sets.train == nullptr) return unknown;
  double bytes = 0;
  for (const data::Dataset* part : {sets.train.get(), sets.test.get()})
    bytes += static_cast<double>(bytes_of_sample(*part) * part->size());
  return Phase::Seconds(bytes / slowest_bytes_per_second);
}

}  // namespace lockstep::train
