// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace lockstep {

/// FNV-1a with 64 bits: a fingerprint by which ranks find that they disagree. It is no defense against malice.
/// @source Fowler, Noll, Vo; draft-eastlake-fnv
class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) add_byte(static_cast<unsigned char>(c));
    add_byte(0xff);  // marks the end of the string, so that ("ab","c") and ("a","bc") differ
  }
  void add(std::int64_t value) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

/// Extends the hash of a sequence by one value. If either argument is fixed, different values of the other one give
/// different results. Every operation computes this, so it is a single multiplication.
inline std::uint64_t combine(std::uint64_t hash, std::uint64_t value) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15ULL;  // 2⁶⁴ / golden ratio, odd
  const std::uint64_t product = (hash ^ value) * factor;
  return product ^ product >> 32U;
}

/// Returns a fingerprint of many bytes, about as fast as memory delivers them. It is no defense against malice. Every
/// change within eight consecutive bytes changes it; any other change does so with a probability of 1 − 2⁻⁶⁴.
inline std::uint64_t hash_of(std::span<const std::byte> bytes) {
  // Eight lanes let multiplications overlap. The rotation lets upper bits affect lower ones, which products do not.
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15ULL;  // 2⁶⁴ / golden ratio, odd
  std::array<std::uint64_t, 8> lanes = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto mix = [](std::uint64_t lane, std::uint64_t word) { return std::rotl((lane ^ word) * factor, 29); };
  const auto add = [&](const std::byte* block) {
    std::array<std::uint64_t, 8> words;
    std::memcpy(words.data(), block, sizeof words);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mix(lanes[i], words[i]);
  };
  std::size_t done = 0;
  for (; done + sizeof lanes <= bytes.size(); done += sizeof lanes) add(bytes.data() + done);
  if (done < bytes.size()) {
    std::array<std::byte, sizeof lanes> rest{};
    std::memcpy(rest.data(), bytes.data() + done, bytes.size() - done);
    add(rest.data());
  }
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t lane : lanes) hash = mix(hash, lane);
  return hash;
}

}  // namespace lockstep
