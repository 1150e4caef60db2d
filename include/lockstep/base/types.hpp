// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

/// A process's number in a communicator, 0 ≤ value < size.
struct Rank {
  int value = 0;
  friend constexpr auto operator<=>(const Rank&, const Rank&) = default;
};

/// A number of elements.
struct Count {
  std::int64_t value = 0;
  friend constexpr auto operator<=>(const Count&, const Count&) = default;
};

/// A number of bytes.
struct Bytes {
  std::int64_t value = 0;
  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
};

}  // namespace lockstep
