// SPDX-License-Identifier: Apache-2.0
#include "apps/train/data/data.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "apps/cli/same_options.hpp"
#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "data/fingerprint.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/agreement.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep::train {
namespace {

/// Returns "'mnist' from 'DIR'". The folder may differ between ranks.
std::string name_of_data(const World& world, const Options& options) {
  const Phase phase(world.group(), "comparing --data-dir");
  const std::vector<std::string> all = all_gather_strings(world.group(), options.data_dir);
  const bool differ = std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end();
  const std::string folder = differ ? " from its --data-dir" : " from '" + echo(options.data_dir, 400) + "'";
  return "'" + options.dataset + "'" + (all.front().empty() && !differ ? "" : folder);
}

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

/// Synthetic data follow from the seed and take longer to generate than files take to read, so only a few of their
/// samples are hashed, unless --full-fingerprint asks for all.
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
                std::vector<Term>& settings) {
  for (const auto& [tensor, hash] : data::fingerprint(part, samples))
    settings.push_back({name + ' ' + tensor + with, hexadecimal(hash)});
}

/// The properties of the data that must be the same on all ranks.
struct Description {
  std::vector<Term> recorded;  ///< in checkpoints
  std::vector<Term> compared;  ///< by ranks only, beside the others
};

void describe_part(const data::Dataset& part, const std::string& name, data::Directory directory,
                   const Options& options, Description& description) {
  description.recorded.push_back({name + " samples", std::to_string(part.size())});
  description.recorded.push_back({name + " classes", std::to_string(part.classes())});
  const SampledHash hash = samples_to_hash(part, directory, options);
  add_hashes(part, name, hash.recorded, " with hash", description.recorded);
  const std::int64_t compared = std::min(hash.compared, part.size());
  if (compared <= hash.recorded) return;
  add_hashes(part, name, compared, " with hash of " + std::to_string(compared) + " samples", description.compared);
}

/// @return a hash of the data. @throws on every rank Error{mismatch} that names the ranks whose data differ, and what
/// differs
std::string require_equal_data(const World& world, const data::DatasetPair& data, data::Directory directory,
                               const Options& options) {
  constexpr double slowest_bytes_per_second = 10e6;  // of a data set that is generated, or on a slow disk
  double seconds = 0;
  for (const data::Dataset* part : {data.train.get(), data.test.get()})
    seconds += static_cast<double>(bytes_of_sample(*part) * part->size()) / slowest_bytes_per_second;
  const Phase phase(world.group(), "hashing the data set", Phase::Kind::work,
                    Phase::Seconds(options.full_fingerprint ? seconds : 0));
  Description description;
  agree(world.group(), [&] {
    describe_part(*data.train, "training", directory, options, description);
    describe_part(*data.test, "test", directory, options, description);
  });
  std::vector<Term> settings = description.recorded;
  settings.insert(settings.end(), description.compared.begin(), description.compared.end());
  try {
    require_equal(world.group(), settings);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch) throw;
    throw Error(ErrorCode::mismatch, error.message() + "; give all ranks the same files (--data-dir)", error.context())
        .on_every_rank();
  }
  Fnv1a hash;
  for (const Term& setting : description.recorded) hash.add(setting.name + ' ' + setting.value);
  return hexadecimal(hash.value());
}

/// Augments the training images. A run that resumes has to do so, too.
/// @throws UsageError on every rank if the data set does not allow it
void augment(const World& world, const Options& options, Data& loaded) {
  const std::string how = options.augmentation.text();
  std::string mistake;
  try {
    loaded.sets.train = data::augmented(loaded.sets.train, options.augmentation);
  } catch (const Error& error) {
    mistake = "--augment " + how + " with --dataset " + options.dataset + ": " + error.message() +
              "; leave --augment out, or choose images with a label each";
  }
  cli::require_no_mistake(world, mistake);
  loaded.fingerprint += " augmented by " + how;
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
/// left out before one cycle, which has its own; a warm-up that the user gave is used as it is.
/// @throws UsageError on every rank
std::int64_t warmup_of(const Options& options, const observe::RunLength& run) {
  if (options.trainer.schedule.decay == nn::Decay::one_cycle) return 0;
  const std::int64_t steps =
      options.warmup_steps.value_or(nn::warmup_steps(options.warmup_epochs, run.steps_per_epoch));
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

Data load_data(const Cluster& cluster, const Options& options, const data::Datasets& datasets) {
  const World& world = cluster.world;
  Data loaded{.batch = cluster.batch.samples, .schedule = options.trainer.schedule};
  const Phase phase(world.group(), "loading the data set " + name_of_data(world, options), Phase::Kind::work);
  agree(world.group(), [&] {
    loaded.sets = datasets.load(options.dataset, {.data_dir = options.data_dir, .seed = options.trainer.seed});
  });
  loaded.fingerprint = require_equal_data(world, loaded.sets, datasets.directory(options.dataset), options);
  if (options.augmentation.changes_images()) augment(world, options, loaded);
  const data::Dataset& train = *loaded.sets.train;
  if (options.eval_only)  // no step is taken, so a batch that is larger than the data does no harm
    loaded.batch.value = std::min(loaded.batch.value, train.size());
  loaded.length = length_of(options.trainer, loaded.batch, train);
  loaded.schedule.peak = cluster.batch.peak;
  if (!options.eval_only) loaded.schedule.warmup_steps = warmup_of(options, loaded.length);
  return loaded;
}

}  // namespace lockstep::train
