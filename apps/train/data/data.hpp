// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "apps/train/data/pictures.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/learning_rate.hpp"
#include "observe/progress_display.hpp"
#include "platform/ranks/agreement.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::train {

/// The anchors of a model, as `nn::DataSpec::anchors`.
struct Anchors {
  std::vector<double> sizes;  ///< empty: the model has none
  std::string text;           ///< how they fit the data, for people; empty: nothing was compared
};

/// The second stage of a run: its data, and how long it trains on them.
struct Data {
  data::DatasetPair sets;
  std::optional<Pictures> pictures;  ///< with --data
  std::string fingerprint;  ///< a hash of the samples, or of some of them, by which a run that resumes knows its data
  std::string older_fingerprint;  ///< the one that checkpoints had before pictures in memory were hashed as they are
                                  ///< stored; empty unless the run resumes
  Count batch;                    ///< global batch
  Anchors anchors;
  observe::RunLength length;
  nn::LearningRateSchedule schedule;  ///< with the peak and the warm-up of this run
};

/// Loads the data set, and adds what the ranks compare of it. Not collective.
/// @throws Error if this rank cannot read its files
/// @param task      how pictures of --data are read
/// @param known     what read_model_of_run has returned
/// @param example   small data that the model can take
Data load_data(const Cluster& cluster, const Options& options, const data::Datasets& datasets,
               const workloads::PictureTask& task, const std::optional<nn::ModelDescription>& known,
               const nn::DataSpec& example, Agreement& agreement);

/// Groups the pictures that are evaluated by their ratio, where the workload wants it, and makes their data set anew.
/// Collective; also for a rank that could not load its data.
void group_evaluated(const Cluster& cluster, const Options& options, const workloads::PictureTask& task, Data& loaded);

/// Gives the pictures of --data the cache of this node. Collective.
void use_cache(const Cluster& cluster, const Options& options, Data& loaded);

/// Augments the data, and computes the length of the run. Not collective.
/// @throws UsageError if the data set cannot be augmented as the options want, or if the warm-up is longer than the run
void fit_to_run(const Cluster& cluster, const Options& options, const workloads::PictureTask& task, Data& loaded);

/// How long --full-fingerprint may take on the ranks. @param sets  without data on a rank that could not load them
Phase::Seconds hashing_time(const Options& options, const data::DatasetPair& sets);

}  // namespace lockstep::train
