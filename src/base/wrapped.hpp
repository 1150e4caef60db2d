// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// Formats values as printf does.
[[gnu::format(__printf__, 1, 2)]] std::string format_text(const char* format, ...);

/// Formats an amount of memory as "12.3 MiB".
std::string mib_text(Bytes bytes);

/// Returns the number of columns of UTF-8 text in which every character takes one column.
std::size_t columns_of(std::string_view text);

/// Appends spaces to a text until it has `columns` columns.
std::string padded(std::string_view text, std::size_t columns);

/// Breaks a line into lines of at most `columns` columns, each with its newline. It breaks at spaces or behind commas
/// to the right of `indent`, if there are any. Continuation lines are indented by `indent`.
std::string wrapped(std::string_view line, std::size_t columns, std::size_t indent = 2);

}  // namespace lockstep
