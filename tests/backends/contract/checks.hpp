// SPDX-License-Identifier: Apache-2.0
#pragma once

// This header declares the parts of the contract.

#include "backends/contract/values.hpp"

namespace lockstep::contract {

// These are defined in collectives.cpp.
void check_all_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count,
                      bool in_place, int repetition = 0);
void check_broadcast(Communicator& c, const Memory& memory, DType dtype, std::int64_t count, Rank root);
void check_all_gather(Communicator& c, const Memory& memory, DType dtype, std::int64_t part, bool in_place);
void check_reduce_scatter(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t part,
                          bool in_place);
/// On ranks other than the root there is no output, or one that must not change.
void check_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count, Rank root,
                  bool in_place);
/// Checks every root with each placement, and every operator with each placement.
void check_reduces(Communicator& c, const Memory& memory, DType dtype, std::int64_t count);
void check_all_to_all(Communicator& c, const Memory& memory, DType dtype, std::int64_t part);
/// Checks both scans.
void check_scans(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count, bool in_place);

// This is defined in types.cpp.
void check_types_and_operators(Communicator& c, const Memory& memory);

// These are defined in parts.cpp.
/// Checks every dtype and count with the roots in turn, and every root.
void check_gathers_and_scatters(Communicator& c, const Memory& memory);
/// The parts are longer than every segment and not a multiple of any.
void check_long_parts(Communicator& c, const Memory& memory);
/// Each rank uses itself as the root, because the larger buffer is checked only there.
void check_refusals_of_gather_and_scatter(Communicator& c, const Memory& memory);

// These are defined in lengths.cpp.
void check_parts_of_different_lengths(Communicator& c, const Memory& memory);
void check_refusals_of_counts(Communicator& c, const Memory& memory);

// These are defined in leaves.cpp.
void check_leaves(Communicator& c, const Memory& memory);

// This is defined in bits.cpp.
void check_equal_bits(Communicator& c, const Memory& memory);

// This is defined in borders.cpp.
void check_refusals_at_borders(Communicator& c, const Memory& memory);

// These are defined in messages.cpp.
/// Sends several messages from every rank to every rank, itself included, between collectives, in a different order on
/// each rank.
void check_messages(Communicator& c, const Memory& memory);
/// Each rank sends every dtype to the next rank, with prepared operations, more often than a short tag can count.
void check_messages_in_a_ring(Communicator& c, const Memory& memory);
void check_refusals_of_messages(Communicator& c, const Memory& memory);
/// Submits a message to each neighbor, one from each, and a sum as one group; with few ranks only the sum.
void check_groups(Communicator& c, const Memory& memory);

// These are defined in prepared.cpp.
void check_prepared(Communicator& c, const Memory& memory);

}  // namespace lockstep::contract
