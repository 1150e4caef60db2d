// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/train/options.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::train {

struct LoadedData {
  data::DatasetPair data;
  std::string fingerprint;  ///< a hash of the samples, or of some of them, by which a run that resumes knows its data
};

/// Loads the data set, and compares it between the ranks. Collective.
/// @throws Error on every rank if a rank cannot read its files; Error{mismatch} on every rank if the ranks' data
/// differ; UsageError on every rank if the data set cannot be augmented as the options want
LoadedData load_data(const World& world, const Options& options, const data::Datasets& datasets);

}  // namespace lockstep::train
