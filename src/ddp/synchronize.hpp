// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// Overwrites all ranks' values with rank 0's, or compares them. Collective.
/// @throws as DataParallel::synchronize
void synchronize(ProcessGroup& group, const std::vector<Buffer>& values, InitialValues how);

}  // namespace lockstep::ddp
