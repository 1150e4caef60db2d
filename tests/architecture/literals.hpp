// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::architecture {

/// What is between quotation marks in a C++ source, without comments. Literals that the compiler puts together are one.
std::vector<std::string> string_literals(std::string_view source);

/// The flags that a text names, "--lr" of "try a lower --lr", but for what stands between backticks: commands of other
/// programs.
std::vector<std::string> flags_in(std::string_view text);

}  // namespace lockstep::architecture
