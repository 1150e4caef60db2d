// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/data/datasets.hpp"

namespace lockstep::workloads {

/// The data sets that come with lockstep, with the targets of the workload that each is for.
std::vector<data::DatasetEntry> data_sets();

}  // namespace lockstep::workloads
