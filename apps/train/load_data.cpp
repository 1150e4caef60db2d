// SPDX-License-Identifier: Apache-2.0
#include "apps/train/load_data.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "apps/common/same_options.hpp"
#include "base/hash.hpp"
#include "data/fingerprint.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::train {
namespace {

/// Returns "'mnist' from 'DIR'". The folder may differ between ranks.
std::string name_of_data(const World& world, const Options& options) {
  const Phase phase(world.group(), "comparing --data-dir");
  const std::vector<std::string> all = all_gather_strings(world.group(), options.data_dir);
  const bool differ = std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end();
  const std::string folder = differ ? " from its --data-dir" : " from '" + options.data_dir + "'";
  return "'" + options.dataset + "'" + (all.front().empty() && !differ ? "" : folder);
}

std::string hexadecimal(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

/// Describes the properties of a part of the data set that must be the same on all ranks. Synthetic data follow from
/// the seed and take longer to generate than files take to read, so only a few of their samples are compared.
void describe_part(const data::Dataset& part, const std::string& name, bool is_read, std::vector<Setting>& settings) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  std::int64_t sample_bytes = 1;
  for (const TensorSpec& tensor : part.tensors()) sample_bytes += 4 * tensor.elements();
  settings.push_back({name + " samples", std::to_string(part.size())});
  settings.push_back({name + " classes", std::to_string(part.classes())});
  const std::int64_t most = is_read ? std::max<std::int64_t>(1, most_bytes / sample_bytes) : 64;
  for (const auto& [tensor, hash] : data::fingerprint(part, most)) {
    settings.push_back({name + ' ' + tensor + " with hash", hexadecimal(hash)});
  }
}

/// @return a hash of the data. @throws on every rank Error{mismatch} that names the ranks whose data differ, and what
/// differs
std::string require_equal_data(const World& world, const data::DatasetPair& data, bool is_read) {
  std::vector<Setting> settings;
  agree(world.group(), [&] {
    describe_part(*data.train, "training", is_read, settings);
    describe_part(*data.test, "test", is_read, settings);
  });
  try {
    require_equal(world.group(), settings);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch) throw;
    throw Error(ErrorCode::mismatch, error.message() + "; give all ranks the same files (--data-dir)", error.context())
        .on_every_rank();
  }
  Fnv1a hash;
  for (const Setting& setting : settings) hash.add(setting.name + ' ' + setting.value);
  return hexadecimal(hash.value());
}

/// Augments the training images. A run that resumes has to do so, too.
/// @throws UsageError on every rank if the data set does not allow it
void augment(const World& world, const Options& options, LoadedData& loaded) {
  const std::string how = options.augmentation.text();
  std::string mistake;
  try {
    loaded.data.train = data::augmented(loaded.data.train, options.augmentation);
  } catch (const Error& error) {
    mistake = "--augment " + how + " with --dataset " + options.dataset + ": " + error.message() +
              "; leave --augment out, or choose images with a label each";
  }
  require_no_mistake(world, mistake);
  loaded.fingerprint += " augmented by " + how;
}

}  // namespace

LoadedData load_data(const World& world, const Options& options, const data::Datasets& datasets) {
  LoadedData loaded;
  const Phase phase(world.group(), "loading the data set " + name_of_data(world, options), Phase::Kind::work);
  agree(world.group(), [&] {
    loaded.data = datasets.load(options.dataset, {.data_dir = options.data_dir, .seed = options.trainer.seed});
  });
  const bool is_read = datasets.directory(options.dataset) == data::Directory::required;
  loaded.fingerprint = require_equal_data(world, loaded.data, is_read);
  if (options.augmentation.changes_images()) augment(world, options, loaded);
  return loaded;
}

}  // namespace lockstep::train
