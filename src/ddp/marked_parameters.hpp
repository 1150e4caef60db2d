// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// Parameters that a rank has marked.
struct MarkedParameters {
  int rank = 0;
  std::string host;
  std::vector<int> parameters;  ///< indices, ascending
};

/// Names ranks for a message, "rank 1" or "ranks 1, 2", of many only the first.
std::string ranks_text(const std::vector<int>& ranks);
/// Names parameters for a message, "'a', 'b'", of many only the first.
std::string names_text(const Layout& layout, const std::vector<int>& parameters);

/// Returns the indices of the flags that are set.
std::vector<int> marked(std::span<const std::uint8_t> flags);

/// Returns the ranks that have marked parameters, in their order. Collective.
/// @param flags  this rank's, by parameter
std::vector<MarkedParameters> gather_marked(const ProcessGroup& group, Communicator& communicator,
                                            const std::vector<std::uint8_t>& flags, std::string_view label);

}  // namespace lockstep::ddp
