// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/trainer/workload.hpp"

namespace lockstep::workloads {

/// The workloads that come with lockstep. Each has a folder, and a row in bundled.cpp.
std::vector<trainer::Workload> bundled();

}  // namespace lockstep::workloads
