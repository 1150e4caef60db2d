// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// What `--version` prints: the app, its commit and the version of every library, a line each. Works without `World`.
std::string version_text(std::string_view app);

/// The commit alone, for records of a run.
std::string commit();

}  // namespace lockstep
