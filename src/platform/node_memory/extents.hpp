// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// Records which parts of a range of bytes are taken. It does not access the bytes.
class Extents {
 public:
  explicit Extents(Bytes whole);

  /// Takes the first free part that is long enough. @param alignment  alignment of the offset
  /// @return its offset; nothing if there is none
  std::optional<std::int64_t> take(Bytes bytes, std::int64_t alignment);
  /// Frees a part. @pre `offset` came from take()
  void give_back(std::int64_t offset) noexcept;

  [[nodiscard]] Bytes taken() const { return taken_; }

 private:
  struct Extent {
    std::int64_t bytes;
    bool taken;
  };
  std::map<std::int64_t, Extent> extents_;  // by offset, without gaps
  Bytes taken_;
};

}  // namespace lockstep
