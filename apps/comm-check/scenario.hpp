// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/collective.hpp"

/// Scenarios for comm-check: operations that are drawn from a seed, alike on every rank.
namespace lockstep::comm_check {

/// World ranks of a group's members, in the order of their group ranks.
using Members = std::vector<int>;

/// A communicator and its lifetime.
struct Group {
  Members members;
  std::size_t first_round = 0;  ///< it is made before this round, by all members
  std::size_t last_round = 0;   ///< it is closed after this round
  std::uint64_t setting = 0;    ///< random bits from which algorithm and options are drawn
};

/// One operation.
struct Request {
  std::size_t group = 0;
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;            ///< root, or the sender of a message
  int to = 0;              ///< receiver of a message; not the sender
  std::int64_t count = 0;  ///< elements of the buffer, or of each rank's part, or of the longest part
  bool in_place = true;
  LeafShares leaves{};  ///< the leaves of an all_reduce, over all members; none: each brings one operand
  /// One bit per member: whether its buffers are from the communicator's `allocate`, or ordinary memory.
  std::uint32_t allocated = 0;
  int salt = 0;
  /// Requests with an equal number, at most one per round, are starts of one prepared operation, with different data.
  /// Empty if the operation is not prepared.
  std::optional<int> preparation = std::nullopt;
  /// Requests of one round and communicator with an equal number are submitted as a group.
  std::optional<int> bundle = std::nullopt;
  friend bool operator==(const Request&, const Request&) = default;
};
/// Returns whether a member takes part; a message has only two participants.
bool takes_part(const Request& request, int member);
/// Returns whether the requests may be starts of one prepared operation.
bool is_same_operation(Request a, const Request& b);

struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 1;
  int in_flight = 1;  ///< the most operations that a rank may have submitted without waiting for them
  std::vector<Group> groups;
  std::vector<std::vector<Request>> rounds;
};

/// The limits within which scenarios are drawn.
struct Limits {
  int min_ranks = 1;
  int max_ranks = 8;
  std::size_t max_groups = 4;
  std::size_t max_rounds = 12;
  std::size_t max_requests = 6;  ///< per round
  int max_in_flight = 6;
  std::int64_t max_bytes = 4096;  ///< per buffer; most are much smaller
};

Scenario draw_scenario(std::uint64_t seed, const Limits& limits);

/// Returns a line for each communicator and operation.
std::string describe(const Scenario& scenario);

bool has_parts_in(CollectiveKind kind);
bool has_parts_out(CollectiveKind kind);

/// Returns the number of elements of the part of `from`, or of what `from` sends to `to`.
std::int64_t part_length(const Request& request, int from, int to);

/// Returns element i of the input of `member`, or of a leaf: 0 or 1 of a boolean, and the real part of a complex
/// number, whose imaginary part is twice as large. It is small, so that sums are exact in every dtype.
int contributed(const Request& request, int member, std::int64_t i);
/// Returns element i of the sum of several leaves.
int sum_of(const Request& request, int first, int leaves, std::int64_t i);
/// Returns the correct element i of the output of `me` if each member brings one operand.
int expected(const Request& request, int size, int me, std::int64_t i);

}  // namespace lockstep::comm_check
