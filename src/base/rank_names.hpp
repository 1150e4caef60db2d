// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// Lists ranks: "rank 3 on host2", "ranks 0 on host1, 3 on host2 and 14 more".
/// @param host_of  returns the host of a rank; an empty text if it is unknown
template <typename HostOf>
std::string rank_names(const std::vector<int>& ranks, const HostOf& host_of) {
  constexpr std::size_t most = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) {
    const std::string host = host_of(ranks[i]);
    list += (list.empty() ? "" : ", ") + std::to_string(ranks[i]) + (host.empty() ? "" : " on " + host);
  }
  if (ranks.size() > most) list += " and " + std::to_string(ranks.size() - most) + " more";
  return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

}  // namespace lockstep
