// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/trainer/workload.hpp"
#include "workloads/picture_task.hpp"

namespace lockstep::workloads {

/// The workloads that come with lockstep. Each has a folder, and a row in bundled.cpp.
std::vector<trainer::Workload> bundled();

/// Returns what a workload does with users' pictures; null where it has no use for them, or is none of lockstep's.
const PictureTask* picture_task(std::string_view workload);

}  // namespace lockstep::workloads
