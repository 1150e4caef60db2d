// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::trainer {

/// Returns the elements of all ranks, by rank; each has any number of them. Collective. @cost  two all-gathers
template <typename Element>
std::vector<Element> gathered(Communicator& communicator, const std::vector<Element>& mine,
                              std::string_view label = {}) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(communicator.size()));
  const auto own = static_cast<std::int64_t>(mine.size());
  communicator.all_gather(std::span(&own, 1), std::span(sizes), Queue::host(), label).wait();
  std::vector<Count> counts;
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    counts.push_back({size});
    total += size;
  }
  std::vector<Element> all(static_cast<std::size_t>(total));
  communicator.all_gather_v(std::span(mine), std::span(all), counts, Queue::host(), label).wait();
  return all;
}

}  // namespace lockstep::trainer
