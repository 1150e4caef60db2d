// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Returns the text for `--version`: the app, its commit and the version of every library, one per line. Works without
/// `World`.
std::string version_text(std::string_view app);

/// Returns the name and the version of the compiler and of every library.
std::vector<std::pair<std::string, std::string>> library_versions();

/// Returns the commit alone, for records of a run.
std::string commit();

}  // namespace lockstep
