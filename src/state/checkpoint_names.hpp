// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// The names in a folder of checkpoints, beside step-… .
namespace lockstep::state {

inline constexpr std::string_view new_prefix = ".new-";          // being written
inline constexpr std::string_view aside_prefix = ".old-";        // being replaced by a new one of the same step
inline constexpr std::string_view discarded_prefix = ".trash-";  // being removed
inline constexpr std::string_view link_prefix = ".link-";        // a link that will replace `last` or `best`
inline constexpr std::string_view unused_prefix = "unused-";     // of a continuation that was given up
inline constexpr std::string_view state_file_name = "state.json";

}  // namespace lockstep::state
