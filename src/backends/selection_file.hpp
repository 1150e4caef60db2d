// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "collectives/choice/selection.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

/// Selection tables as JSON files; the format is in docs/selection.md.
namespace lockstep::backends {

/// Parses a table strictly: it skips nothing that it does not understand.
/// @param file  for error messages
/// @throws Error{corrupt} that names the file, the entry and the value at fault: for text that is not JSON, another
///         version of the format, keys that are missing or unknown, and whatever `SelectionTable::add` refuses
collectives::SelectionTable parse_selection_table(const std::string& text, const std::string& file);

/// Returns the text that `parse_selection_table` reads back, with a line for each entry. It ends with a newline.
std::string format_selection_table(const collectives::SelectionTable& table);

/// @throws Error{io} that names the file; Error{corrupt}
collectives::SelectionTable read_selection_table(const std::string& file);

/// Returns, on every rank, the table of the file that rank 0 reads; the other ranks do not open the file. Collective.
/// @throws rank 0's Error, on every rank: as read_selection_table; Error{transport}
collectives::SelectionTable agreed_selection_table(const RankSet& group, const std::string& file);

}  // namespace lockstep::backends
