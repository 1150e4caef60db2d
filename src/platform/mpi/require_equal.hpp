// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

/// A setting that must be equal on all ranks, with its name and value as the user knows them.
struct Setting {
  std::string name;
  std::string value;
};

/// Compares the settings of all ranks. Call it before ranks exchange anything that depends on them. Collective.
/// @throws Error{mismatch}, the same on every rank (`Error::is_on_every_rank`), unless all are equal: "rank 3 on host2
///         has --lr 0.2, the other 15 have 0.1". Its peers are the ranks that differ from the majority, or all if there
///         is none; Error{transport}
/// @cost two all-gathers, of a number and of the texts
void require_equal(const MpiGroup& group, const std::vector<Setting>& mine);

}  // namespace lockstep
