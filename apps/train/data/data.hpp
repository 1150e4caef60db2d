// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/train/cluster/cluster.hpp"
#include "apps/train/options/options.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/learning_rate.hpp"
#include "observe/progress_display.hpp"

namespace lockstep::train {

/// The second stage of a run: its data, and how long it trains on them.
struct Data {
  data::DatasetPair sets;
  std::string fingerprint;  ///< a hash of the samples, or of some of them, by which a run that resumes knows its data
  Count batch;              ///< global batch
  observe::RunLength length;
  nn::LearningRateSchedule schedule;  ///< with the peak and the warm-up of this run
};

/// Loads the data set, and compares it between the ranks. Collective.
/// @throws Error on every rank if a rank cannot read its files; Error{mismatch} on every rank if the ranks' data
/// differ; UsageError on every rank if the data set cannot be augmented as the options want, or if the warm-up is
/// longer than the run
Data load_data(const Cluster& cluster, const Options& options, const data::Datasets& datasets);

}  // namespace lockstep::train
