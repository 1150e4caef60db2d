// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// How many columns UTF-8 text takes where every character takes one.
std::size_t columns_of(std::string_view text);

/// The text followed by as many spaces as it lacks of `columns`.
std::string padded(std::string_view text, std::size_t columns);

/// One line as lines that are no longer than `columns`, each with its newline: broken at spaces, or behind commas,
/// where there are any to the right of `indent`. What continues the line is indented by `indent`.
std::string wrapped(std::string_view line, std::size_t columns, std::size_t indent = 2);

}  // namespace lockstep
