// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// What ranks can do together. The one list of them: back ends run them, plans are made, priced and chosen for them,
/// and programs name them.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  reduce,
  all_to_all,
  barrier,
  reduce_then,  ///< an all_reduce with a function applied to its sums
  send,         ///< of one rank to another, which receives it
  recv,
  gather,
  scatter,
  all_gather_v,  ///< with parts of different lengths, as the next two
  reduce_scatter_v,
  all_to_all_v,
};

/// "all_reduce", "broadcast", ….
std::string_view name(CollectiveKind kind);

/// Whether one rank has a part in it that the others do not have.
constexpr bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}

/// Whether ranks' parts may differ in length, so that a call has their counts.
constexpr bool has_part_counts(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather_v || kind == CollectiveKind::reduce_scatter_v ||
         kind == CollectiveKind::all_to_all_v;
}

/// Whether operands are added up.
constexpr bool is_reduction(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_then || kind == CollectiveKind::reduce ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce_scatter_v;
}

/// Whether it is between two ranks, and takes no turn among what all do together. No plan is made for it.
constexpr bool is_message(CollectiveKind kind) { return kind == CollectiveKind::send || kind == CollectiveKind::recv; }

/// Whether every rank ends with the sums of whole buffers, or with what a function makes of them. Both exchange the
/// same, so that one algorithm, price and entry of a table serves both.
constexpr bool is_all_reduce(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_then;
}

}  // namespace lockstep
