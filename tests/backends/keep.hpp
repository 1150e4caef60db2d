// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace lockstep::backends {

/// Keeps operations under way: requests and the memory they point to live until the process ends.
template <typename T>
void keep(T thing) {
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  kept->push_back(std::make_shared<T>(std::move(thing)));
}

}  // namespace lockstep::backends
