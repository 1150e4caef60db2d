// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::architecture {

/// Returns the string literals of a C++ source, without comments. Literals that the compiler concatenates are one.
std::vector<std::string> string_literals(std::string_view source);

/// Returns the flags that a text names, such as "--lr" in "try a lower --lr". Text between backticks does not count,
/// because it contains commands of other programs.
std::vector<std::string> flags_in(std::string_view text);

}  // namespace lockstep::architecture
