// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// The kinds of collective operations and messages.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  reduce,
  all_to_all,
  barrier,
  send,  ///< from one rank to another, which calls recv
  recv,
  gather,
  scatter,
  all_gather_v,  ///< with parts of different lengths, like the next two
  reduce_scatter_v,
  all_to_all_v,
  scan,            ///< reduces over the ranks up to the own one
  exclusive_scan,  ///< the same without the own one
};

/// "all_reduce", "broadcast", ….
std::string_view name(CollectiveKind kind);

/// Whether the operation has a root.
constexpr bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}

/// Whether parts may differ in length, so that a call passes counts.
constexpr bool has_part_counts(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather_v || kind == CollectiveKind::reduce_scatter_v ||
         kind == CollectiveKind::all_to_all_v;
}

/// Whether every rank sends a part to every rank.
constexpr bool is_all_to_all(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all || kind == CollectiveKind::all_to_all_v;
}

/// Whether each rank gets the reduction over the ranks before it.
constexpr bool is_scan(CollectiveKind kind) {
  return kind == CollectiveKind::scan || kind == CollectiveKind::exclusive_scan;
}

/// Whether the operation reduces.
constexpr bool is_reduction(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce_scatter_v || is_scan(kind);
}

/// Whether it is a message between two ranks, which has its own order apart from the collectives. Messages have no
/// plans.
constexpr bool is_message(CollectiveKind kind) { return kind == CollectiveKind::send || kind == CollectiveKind::recv; }

}  // namespace lockstep
