// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// FNV-1a, 64 bits: a fingerprint that ranks compare to find that they disagree; no defense against malice.
/// @source Fowler, Noll, Vo; draft-eastlake-fnv
class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) add_byte(static_cast<unsigned char>(c));
    add_byte(0xff);  // ends the string, so that ("ab","c") and ("a","bc") differ
  }
  void add(std::int64_t value) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace lockstep
