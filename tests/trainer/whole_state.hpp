// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/replica/store.hpp"

namespace lockstep::testing_support {

/// The tensors of a run, each whole, whatever part of it a rank holds.
struct WholeState {
  std::vector<std::byte> weights;
  std::vector<std::vector<std::byte>> optimizer_state;
  std::vector<std::byte> averages;    ///< empty without EMA
  std::vector<std::byte> statistics;  ///< the running statistics of all shards, one after the other
  friend bool operator==(const WholeState&, const WholeState&) = default;
};

/// Copies the tensors of all ranks. Collective. @return the same on all ranks
inline WholeState whole_state(trainer::Store& store) {
  const auto bytes_of = [](const Buffer& buffer) {
    const auto* begin = static_cast<const std::byte*>(buffer.data);
    return std::vector<std::byte>(begin, begin + buffer.bytes().value);
  };
  const auto whole = [&](const Buffer& own) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(store.values().bytes().value));
    store.assemble(own, {bytes.data(), store.values().count, store.values().dtype});
    return bytes;
  };
  WholeState state{.weights = bytes_of(store.values())};
  for (const Buffer& own : store.optimizer_state()) state.optimizer_state.push_back(whole(own));
  if (store.has_averages()) state.averages = whole(store.averages());
  state.statistics = store.statistics().gather().memory;
  return state;
}

}  // namespace lockstep::testing_support
