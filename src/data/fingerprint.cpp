// SPDX-License-Identifier: Apache-2.0
#include "data/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace lockstep::data {
namespace {

/// A hash that takes four words at a time, so that no multiplication waits for the previous one.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    while (bytes.size() >= block_bytes) {
      std::array<std::uint64_t, lanes> words;
      std::memcpy(words.data(), bytes.data(), block_bytes);
      for (std::size_t lane = 0; lane < lanes; ++lane) mix(state_[lane], words[lane]);
      bytes = bytes.subspan(block_bytes);
    }
    for (const std::byte byte : bytes) mix(state_[0], static_cast<std::uint64_t>(byte));
  }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t value = 0;
    for (const std::uint64_t lane : state_) mix(value, lane);
    return value ^ value >> 32;
  }

 private:
  static constexpr std::size_t lanes = 4;
  static constexpr std::size_t block_bytes = lanes * sizeof(std::uint64_t);
  static void mix(std::uint64_t& state, std::uint64_t word) {
    state = std::rotl(state ^ word, 29) * 0x9e3779b97f4a7c15ULL;  // odd, so that no bit is lost
  }
  std::array<std::uint64_t, lanes> state_{1, 2, 3, 4};
};

}  // namespace

std::vector<std::pair<std::string, std::uint64_t>> fingerprint(const Dataset& dataset, std::int64_t most_samples) {
  constexpr std::int64_t at_once = 64;  // small enough that hashed data is still in the cache
  const std::vector<TensorSpec> specs = dataset.tensors();
  const std::int64_t taken = std::min(dataset.size(), most_samples);
  std::vector<std::vector<std::byte>> memory;
  std::vector<Hash> hashes(specs.size());
  for (const TensorSpec& spec : specs) memory.emplace_back(static_cast<std::size_t>(at_once * spec.elements() * 4));
  for (std::int64_t begin = 0; begin < taken; begin += at_once) {
    const std::int64_t samples = std::min(taken - begin, at_once);
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      std::vector<Buffer> slots;
      for (std::size_t i = 0; i < specs.size(); ++i)
        slots.push_back({memory[i].data() + sample * specs[i].elements() * 4,
                         {specs[i].elements()},
                         specs[i].dtype(DType::float32)});
      dataset.read({.index = (begin + sample) * (dataset.size() / taken)}, slots);
    }
    for (std::size_t i = 0; i < specs.size(); ++i)
      hashes[i].add({memory[i].data(), static_cast<std::size_t>(samples * specs[i].elements() * 4)});
  }
  std::vector<std::pair<std::string, std::uint64_t>> values;
  for (std::size_t i = 0; i < specs.size(); ++i) values.emplace_back(specs[i].name, hashes[i].value());
  return values;
}

}  // namespace lockstep::data
