// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/collectives/choice/selection.hpp"

namespace lockstep::collectives {

/// A line for each size: what is chosen, the predicted time, and why. Ends with a newline.
/// @param sizes  as in `predicted_seconds`
/// @param table  what to call the selection's table, e.g. its file
std::string explain(const Selection& selection, CollectiveKind kind, std::span<const Bytes> sizes,
                    std::string_view table);

}  // namespace lockstep::collectives
