// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

/// Something that a rank goes by and that all ranks must have alike, in words for its user.
struct Setting {
  std::string name;
  std::string value;
};

/// Compares what all ranks bring. To be called before they exchange anything that depends on it. Collective.
/// @throws Error{mismatch}, the same on every rank (`Error::is_on_every_rank`), unless all are equal: "rank 3 on host2
///         has --lr 0.2, the other 15 have 0.1". Its peers are the ranks that differ from the majority, or all where
///         there is none; Error{transport}
/// @cost two all-gathers, of a number and of the texts
void require_equal(const MpiGroup& group, const std::vector<Setting>& mine);

}  // namespace lockstep
