// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/types.hpp"
#include "lockstep/collectives/algorithms/algorithm.hpp"
#include "lockstep/collectives/choice/prices.hpp"

/// Closed formulas for the price of an all-reduce where links inside a node differ from those between nodes. Tests hold
/// them against the simulator up to 1,024 ranks. Each rank has ports of its own, as there; where ranks share their
/// node's link, price `remote` for what one of them gets.
namespace lockstep::collectives {

/// Nodes of equal size; ranks are numbered node by node.
struct EqualNodes {
  int nodes = 1;
  int ranks_per_node = 1;

  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

/// One block, over all ranks alike. In terms of the formulas in cost.hpp:
/// - ring, double tree: every link priced as `remote`; an upper bound where local links are no slower;
/// - halving-doubling, recursive doubling: exchanges at distances below the ranks of a node are local. Exact where
///   nodes and ranks per node are powers of two and the elements divide by the ranks. Otherwise all exchanges are
///   priced as remote, which is an estimate only: a rank that is ready early may send a large piece of a later exchange
///   and keep a smaller one, for which others wait, from the port.
double flat_all_reduce_seconds(Algorithm algorithm, const EqualNodes& cluster, Bytes buffer, const CostModel& model);

/// One block of a hierarchical all-reduce: shared_memory_all_reduce_seconds inside the nodes, at the price of `local`,
/// and the formula of what runs across nodes between as many ranks as there are nodes, on an r-th of the buffer with r
/// ranks per node. Exact where the formula of `across` is, and r times its divisor divides the elements.
/// @param across  ring, double_tree, halving_doubling or recursive_doubling
double hierarchical_all_reduce_seconds(Algorithm across, const EqualNodes& cluster, Bytes buffer,
                                       const CostModel& model);

}  // namespace lockstep::collectives
