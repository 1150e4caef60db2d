// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// Keeps account of which parts of a range of bytes are taken. Knows nothing of what lies there.
class Extents {
 public:
  explicit Extents(Bytes whole);

  /// The first free part that is long enough. @param alignment  of the offset
  /// @return its offset; nothing if there is none
  std::optional<std::int64_t> take(Bytes bytes, std::int64_t alignment);
  /// Never throws. @pre `offset` came from take()
  void give_back(std::int64_t offset) noexcept;

  [[nodiscard]] Bytes taken() const { return taken_; }

 private:
  struct Extent {
    std::int64_t bytes;
    bool taken;
  };
  std::map<std::int64_t, Extent> extents_;  // by offset; without gaps
  Bytes taken_;
};

}  // namespace lockstep
