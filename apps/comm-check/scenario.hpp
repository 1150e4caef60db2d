// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/collective.hpp"

/// What comm-check has ranks do: drawn from a seed, alike on every rank.
namespace lockstep::check {

/// Ranks of the world, in the order of their ranks in the group.
using Members = std::vector<int>;

/// A communicator, and how long it lives.
struct Group {
  Members members;
  std::size_t first_round = 0;  ///< made before this round, which its members begin together
  std::size_t last_round = 0;   ///< closed after this one
  std::uint64_t setting = 0;    ///< whoever makes communicators draws algorithm and options from it
};

/// One operation.
struct Request {
  std::size_t group = 0;
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;            ///< of a message, who sends it
  int to = 0;              ///< of a message; another one
  std::int64_t count = 0;  ///< of the buffer; of each rank's part where there are parts, of the longest if they differ
  bool in_place = true;
  int leaves = 0;  ///< of an all_reduce, over all members; 0: each brings one operand
  /// One bit a member says whether its buffers are the communicator's `allocate`, or ordinary memory.
  std::uint32_t allocated = 0;
  int salt = 0;
  /// Requests of equal number, one a round at most, are one prepared operation that is started for each of them, with
  /// other data. None where it is submitted plainly.
  std::optional<int> preparation = std::nullopt;
  /// Requests of a round and a communicator with an equal number are submitted as a group.
  std::optional<int> bundle = std::nullopt;
};
/// Whether a member has a part in it: in a message only two have.
bool takes_part(const Request& request, int member);
/// Whether they may be starts of one prepared operation.
bool is_same_operation(const Request& a, const Request& b);

struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 1;
  int in_flight = 1;  ///< how many operations a rank may have submitted without having waited for them
  std::vector<Group> groups;
  std::vector<std::vector<Request>> rounds;
};

/// Within which scenarios are drawn.
struct Limits {
  int min_ranks = 1;
  int max_ranks = 8;
  std::size_t max_groups = 4;
  std::size_t max_rounds = 12;
  std::size_t max_requests = 6;  ///< in a round
  int max_in_flight = 6;
  std::int64_t max_bytes = 4096;  ///< of a buffer; most are much smaller
};

Scenario draw_scenario(std::uint64_t seed, const Limits& limits);

/// A line for each communicator and operation.
std::string describe(const Scenario& scenario);

bool has_parts_in(CollectiveKind kind);
bool has_parts_out(CollectiveKind kind);

/// Elements of the part of `from`, or of what it sends to `to`.
std::int64_t part_length(const Request& request, int from, int to);

/// What `member`, or a leaf, brings at element i of its input: small, so that sums are exact in every dtype.
int brought(const Request& request, int member, std::int64_t i);
/// The sum of several leaves there.
int sum_of(const Request& request, int first, int leaves, std::int64_t i);
/// What is right at element i of the output of `me`, where each brings one operand.
int expected(const Request& request, int size, int me, std::int64_t i);

}  // namespace lockstep::check
