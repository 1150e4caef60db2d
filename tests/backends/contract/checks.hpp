// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of the contract.

#include "backends/contract/values.hpp"

namespace lockstep::contract {

// collectives.cpp
void check_all_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count,
                      bool in_place, int repetition = 0);
void check_broadcast(Communicator& c, const Memory& memory, DType dtype, std::int64_t count, Rank root);
void check_all_gather(Communicator& c, const Memory& memory, DType dtype, std::int64_t part, bool in_place);
void check_reduce_scatter(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t part,
                          bool in_place);
/// Away from the root there is no output, or one that must stay as it is.
void check_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count, Rank root,
                  bool in_place);
/// Every root with each placement, and every operator with each of them.
void check_reduces(Communicator& c, const Memory& memory, DType dtype, std::int64_t count);
void check_all_to_all(Communicator& c, const Memory& memory, DType dtype, std::int64_t part);

// reduce_then.cpp
void check_reduce_thens(Communicator& c, const Memory& memory);

// parts.cpp
/// Every dtype and count with roots by turns, and every root.
void check_gathers_and_scatters(Communicator& c, const Memory& memory);
/// Longer than every segment and not a multiple of any.
void check_long_parts(Communicator& c, const Memory& memory);
/// Each rank as its own root, since elsewhere nobody looks at the larger buffer.
void check_refusals_of_gather_and_scatter(Communicator& c, const Memory& memory);

// lengths.cpp
void check_parts_of_different_lengths(Communicator& c, const Memory& memory);
void check_refusals_of_counts(Communicator& c, const Memory& memory);

// leaves.cpp
void check_leaves(Communicator& c, const Memory& memory);

// messages.cpp
/// Several from every rank to every other one and to itself, among operations of all, in another order on each rank.
void check_messages(Communicator& c, const Memory& memory);
/// Every dtype, each rank to the next one; prepared, more often than a short tag can count.
void check_messages_in_a_ring(Communicator& c, const Memory& memory);
void check_refusals_of_messages(Communicator& c, const Memory& memory);
/// A message to each neighbor, one from each, and a sum, submitted as one; on a few ranks nothing but the sum.
void check_groups(Communicator& c, const Memory& memory);

// prepared.cpp
void check_prepared(Communicator& c, const Memory& memory);

}  // namespace lockstep::contract
