// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/collectives/choice/selection.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

/// Selection tables as JSON files; the format is in docs/selection.md.
namespace lockstep::backends {

/// Strict: what is not understood is not skipped.
/// @param file  for error messages
/// @throws Error{corrupt} that names the file, the entry and the value at fault: for text that is not JSON, another
///         version of the format, keys that are missing or unknown, and whatever `SelectionTable::add` refuses
collectives::SelectionTable parse_selection_table(const std::string& text, const std::string& file);

/// What `parse_selection_table` reads back; a line for each entry. Ends with a newline.
std::string format_selection_table(const collectives::SelectionTable& table);

/// @throws Error{io} that names the file; Error{corrupt}
collectives::SelectionTable read_selection_table(const std::string& file);

/// The file as rank 0 sees it, on every rank; the others do not look for theirs. Collective.
/// @throws rank 0's Error, on every rank: as read_selection_table; Error{transport}
collectives::SelectionTable agreed_selection_table(const MpiGroup& group, const std::string& file);

}  // namespace lockstep::backends
