// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "collectives/proof/symbolic_memory.hpp"

namespace lockstep::collectives {

/// unwritten, misplaced, missing, doubled, unequal: how the outputs of all ranks differ from what the operation
/// promises.
std::optional<Fault> find_wrong_result(const std::vector<std::vector<Piece>>& outputs, const Trial& trial,
                                       const Expressions& expressions);

}  // namespace lockstep::collectives
