// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

/// A setting that should be equal on all ranks, with its name and value as the user knows them.
struct Term {
  std::string name;
  std::string value;
  bool is_harmless = false;  ///< whether ranks may have different values, which is only worth a warning
};

/// Compares the settings of all ranks. Call it before ranks exchange anything that depends on them. Collective.
/// @return the harmless differences, the same on every rank; empty if there are none
/// @throws Error{mismatch}, the same on every rank (`Error::is_on_every_rank`), if a setting differs that is not
///         harmless: "rank 3 on host2 has --lr 0.2, the other 15 have 0.1". Its peers are the ranks that differ from
///         the majority, or all if there is none; Error{transport}
/// @cost two all-gathers, of a number and of the texts
std::string require_equal(const MpiGroup& group, const std::vector<Term>& mine);

/// Writes settings as text, for an exchange that the caller makes.
std::string to_text(const std::vector<Term>& settings);
/// Compares settings as `require_equal` does, without an exchange. @param all  the `to_text` of each rank
std::string require_equal_texts(const MpiGroup& group, const std::vector<std::string>& all);

}  // namespace lockstep
