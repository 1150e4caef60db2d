// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-check/scenario.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <random>

namespace lockstep::comm_check {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) { return static_cast<std::size_t>(random() % bound); }

constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce,     CollectiveKind::all_reduce,
                                    CollectiveKind::broadcast,      CollectiveKind::broadcast,
                                    CollectiveKind::all_gather,     CollectiveKind::reduce,
                                    CollectiveKind::all_to_all,     CollectiveKind::barrier,
                                    CollectiveKind::reduce_scatter, CollectiveKind::reduce_scatter,
                                    CollectiveKind::gather,         CollectiveKind::scatter,
                                    CollectiveKind::all_gather_v,   CollectiveKind::reduce_scatter_v,
                                    CollectiveKind::all_to_all_v,   CollectiveKind::send,
                                    CollectiveKind::send,           CollectiveKind::send,
                                    CollectiveKind::scan,           CollectiveKind::exclusive_scan};
constexpr DType dtypes[] = {DType::float32, DType::float64,   DType::int32,     DType::int64,
                            DType::uint8,   DType::int8,      DType::int16,     DType::uint16,
                            DType::boolean, DType::complex64, DType::complex128};
constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::average};
constexpr ReduceOp ops_of_complex_numbers[] = {ReduceOp::sum, ReduceOp::average};
constexpr ReduceOp ops_of_integers[] = {ReduceOp::logical_and, ReduceOp::logical_or, ReduceOp::logical_xor,
                                        ReduceOp::bit_and,     ReduceOp::bit_or,     ReduceOp::bit_xor};

/// Draws an operator that this operation has, and whose neutral element is an int if rank 0 gets that.
ReduceOp draw_op(Random& random, CollectiveKind kind, DType dtype) {
  const bool has_more = (is_integer(dtype) || dtype == DType::boolean) && random() % 2 == 0;
  if (has_more) return ops_of_integers[below(random, std::size(ops_of_integers))];
  if (kind == CollectiveKind::exclusive_scan) return ReduceOp::sum;
  const std::size_t without_average = is_scan(kind) || dtype == DType::boolean ? 1 : 0;
  if (is_complex(dtype)) return ops_of_complex_numbers[below(random, 2 - without_average)];
  return ops[below(random, std::size(ops) - without_average)];
}

int combined(ReduceOp op, int a, int b) {
  switch (op) {
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::logical_and: return a != 0 && b != 0 ? 1 : 0;
    case ReduceOp::logical_or: return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::logical_xor: return (a != 0) != (b != 0) ? 1 : 0;
    case ReduceOp::bit_and: return a & b;
    case ReduceOp::bit_or: return a | b;
    case ReduceOp::bit_xor: return a ^ b;
    default: return a + b;
  }
}

/// Returns what rank 0 gets of an exclusive scan.
int neutral(ReduceOp op) {
  if (op == ReduceOp::bit_and) return -1;
  return op == ReduceOp::logical_and ? 1 : 0;
}

/// Draws all or some of the world's ranks, in any order.
Members draw_members(Random& random, int ranks) {
  Members members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  if (random() % 2 == 0) return members;
  std::shuffle(members.begin(), members.end(), random);
  members.resize(1 + below(random, members.size()));
  return members;
}

std::int64_t draw_bytes(Random& random, std::int64_t most) {
  const auto drawn = random() % 8;
  if (drawn < 5) return static_cast<std::int64_t>(random() % 64);
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(drawn < 7 ? most / 8 : most));
}

/// Draws the leaves of all ranks: nearly equal shares, or some for each rank.
LeafShares draw_leaves(Random& random, int size) {
  const std::size_t more = below(random, 2 * static_cast<std::size_t>(size) + 1);
  if (random() % 2 == 0) return size + static_cast<int>(more);
  std::vector<int> counts(static_cast<std::size_t>(size), 1);
  for (std::size_t leaf = 0; leaf < more; ++leaf) ++counts[below(random, counts.size())];
  return LeafShares(counts);
}

Request draw_request(Random& random, std::size_t group, int size, const Limits& limits) {
  Request r;
  r.group = group;
  r.kind = kinds[below(random, std::size(kinds))];
  r.dtype = dtypes[below(random, std::size(dtypes))];
  r.op = draw_op(random, r.kind, r.dtype);
  r.root = static_cast<int>(below(random, static_cast<std::size_t>(size)));
  r.to = size == 1 ? 0 : (r.root + 1 + static_cast<int>(below(random, static_cast<std::size_t>(size) - 1))) % size;
  if (r.kind == CollectiveKind::send && size == 1) r.kind = CollectiveKind::barrier;
  const bool parts = has_parts_in(r.kind) || has_parts_out(r.kind);
  const std::int64_t count = draw_bytes(random, limits.max_bytes) / size_of(r.dtype) / (parts ? size : 1);
  r.count = r.kind == CollectiveKind::barrier ? 0 : count;
  r.in_place = random() % 2 == 0;
  const auto drawn = random();
  r.allocated = drawn % 4 == 0 ? 0 : drawn % 4 == 1 ? ~0U : static_cast<std::uint32_t>(random());
  r.salt = static_cast<int>(random() % 1000);
  const bool adds_leaves = r.kind == CollectiveKind::all_reduce && r.op != ReduceOp::average && random() % 2 == 0;
  if (adds_leaves) r.leaves = draw_leaves(random, size);
  return r;
}

/// Returns the last start of each prepared operation of a communicator, and its round.
std::map<int, std::pair<std::size_t, Request>> preparations_of(const Scenario& s, std::size_t group) {
  std::map<int, std::pair<std::size_t, Request>> all;
  for (std::size_t round = 0; round < s.rounds.size(); ++round)
    for (const Request& r : s.rounds[round])
      if (r.preparation && r.group == group) all[*r.preparation] = {round, r};
  return all;
}

/// Draws a request for the last round: a prepared operation of an earlier round, or a new one.
Request draw_again_or_new(Random& random, const Scenario& s, std::size_t group, const Limits& limits) {
  constexpr std::size_t most_preparations = 3;  // each one keeps its buffers
  const auto preparations = preparations_of(s, group);
  std::vector<Request> able;
  for (const auto& [number, start] : preparations)
    if (start.first + 1 < s.rounds.size()) able.push_back(start.second);
  if (!able.empty() && random() % 2 == 0) {
    Request again = able[below(random, able.size())];
    again.salt = static_cast<int>(random() % 1000);
    return again;
  }
  Request r = draw_request(random, group, static_cast<int>(s.groups[group].members.size()), limits);
  if (preparations.size() < most_preparations && random() % 3 == 0) {
    r.preparation = 0;
    for (const auto& round : s.rounds) *r.preparation += static_cast<int>(round.size());
  }
  return r;
}

/// Bundles one of the round's requests with those after it, as long as they are on the same communicator and not
/// prepared.
void draw_bundle(Random& random, std::vector<Request>& requests) {
  const std::size_t first = below(random, requests.size());
  for (std::size_t k = first; k < requests.size(); ++k) {
    if (requests[k].group != requests[first].group || requests[k].preparation) return;
    requests[k].bundle = static_cast<int>(first);
  }
}

std::string list(const Members& members) {
  std::string text;
  for (const int member : members) text += (text.empty() ? "" : " ") + std::to_string(member);
  return text;
}

/// Returns element i of the concatenated contributions of all ranks to rank `me`.
int gathered(const Request& r, int me, std::int64_t i) {
  const bool exchanges = is_all_to_all(r.kind);
  int from = 0;
  for (; i >= part_length(r, from, exchanges ? me : from); ++from) i -= part_length(r, from, exchanges ? me : from);
  for (int to = 0; exchanges && to < me; ++to) i += part_length(r, from, to);
  return contributed(r, from, i);
}

/// Returns where the part of `me` begins in every rank's input.
std::int64_t own_part(const Request& r, int me) {
  std::int64_t at = 0;
  for (int rank = 0; rank < me; ++rank) at += part_length(r, rank, rank);
  return at;
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed, const Limits& limits) {
  Random random(seed);
  Scenario s;
  s.seed = seed;
  s.ranks = limits.min_ranks + static_cast<int>(below(random, static_cast<std::size_t>(limits.max_ranks) -
                                                                  static_cast<std::size_t>(limits.min_ranks) + 1));
  s.in_flight = 1 + static_cast<int>(below(random, static_cast<std::size_t>(limits.max_in_flight)));
  const std::size_t rounds = 1 + below(random, limits.max_rounds);
  const std::size_t groups = 1 + below(random, limits.max_groups);
  for (std::size_t g = 0; g < groups; ++g) {
    Group group{.members = draw_members(random, s.ranks), .last_round = rounds - 1, .setting = random()};
    if (g > 0 && random() % 2 == 0) {  // it comes and goes during the scenario
      group.first_round = below(random, rounds);
      group.last_round = group.first_round + below(random, rounds - group.first_round);
    }
    s.groups.push_back(std::move(group));
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::size_t> alive;
    for (std::size_t g = 0; g < groups; ++g)
      if (s.groups[g].first_round <= round && round <= s.groups[g].last_round) alive.push_back(g);
    s.rounds.emplace_back();
    for (std::size_t n = 1 + below(random, limits.max_requests); n > 0; --n) {
      const Request drawn = draw_again_or_new(random, s, alive[below(random, alive.size())], limits);
      s.rounds.back().push_back(drawn);
    }
    if (random() % 3 == 0) draw_bundle(random, s.rounds.back());
  }
  return s;
}

std::string describe(const Scenario& s) {
  std::string text = "seed " + std::to_string(s.seed) + ": " + std::to_string(s.ranks) + " ranks, " +
                     std::to_string(s.in_flight) + " operations in flight\n";
  for (std::size_t g = 0; g < s.groups.size(); ++g) {
    const Group& group = s.groups[g];
    text += "communicator " + std::to_string(g) + " of ranks " + list(group.members) + ", rounds " +
            std::to_string(group.first_round) + " to " + std::to_string(group.last_round) + ", setting " +
            std::to_string(group.setting) + "\n";
  }
  for (std::size_t round = 0; round < s.rounds.size(); ++round)
    for (const Request& r : s.rounds[round]) {
      const auto members = static_cast<int>(s.groups[r.group].members.size());
      text += "round " + std::to_string(round) + ": " + std::string(name(r.kind)) + " on " + std::to_string(r.group);
      if (r.kind != CollectiveKind::barrier)
        text += ", " + std::to_string(r.count) + " " + std::string(name(r.dtype)) + ", " + std::string(name(r.op)) +
                (is_message(r.kind) ? ", from " + std::to_string(r.root) + " to " + std::to_string(r.to)
                                    : ", root " + std::to_string(r.root)) +
                (r.leaves.total() > 0 ? ", leaves of each " + list(r.leaves.counts(members)) : "") +
                (r.in_place ? ", in place" : "") + ", allocated " + std::to_string(r.allocated & 0xffU);
      if (r.bundle) text += ", in group " + std::to_string(*r.bundle);
      if (r.preparation) text += ", prepared " + std::to_string(*r.preparation);
      text += "\n";
    }
  return text;
}

bool has_parts_in(CollectiveKind kind) {
  return is_all_to_all(kind) || kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter ||
         kind == CollectiveKind::reduce_scatter_v;
}

bool has_parts_out(CollectiveKind kind) {
  return is_all_to_all(kind) || kind == CollectiveKind::all_gather || kind == CollectiveKind::gather ||
         kind == CollectiveKind::all_gather_v;
}

std::int64_t part_length(const Request& r, int from, int to) {
  if (!has_part_counts(r.kind)) return r.count;
  const int number = r.kind == CollectiveKind::all_to_all_v ? 7 * from + 3 * to : from;
  const std::int64_t lengths[] = {r.count, 0, r.count / 2, std::min<std::int64_t>(r.count, 1), r.count};
  return lengths[static_cast<std::size_t>(number + r.salt) % std::size(lengths)];
}

bool takes_part(const Request& request, int member) {
  return !is_message(request.kind) || request.root == member || request.to == member;
}

bool is_same_operation(Request a, const Request& b) {
  if (!has_part_counts(a.kind) || a.salt % 5 == b.salt % 5) a.salt = b.salt;  // the lengths of parts depend on it
  a.bundle = b.bundle;
  return a == b;
}

int contributed(const Request& request, int member, std::int64_t i) {
  const auto value = static_cast<int>((member * 5 + i * 3 + request.salt) % 7);
  return request.dtype == DType::boolean ? value % 2 : value;
}

int sum_of(const Request& request, int first, int leaves, std::int64_t i) {
  int result = contributed(request, first, i);
  for (int leaf = first + 1; leaf < first + leaves; ++leaf)
    result = combined(request.op, result, contributed(request, leaf, i));
  return result;
}

int expected(const Request& r, int size, int me, std::int64_t i) {
  if (r.kind == CollectiveKind::broadcast || is_message(r.kind)) return contributed(r, r.root, i);
  if (r.kind == CollectiveKind::scatter) return contributed(r, r.root, own_part(r, me) + i);
  if (has_parts_out(r.kind)) return gathered(r, me, i);
  const std::int64_t at = has_parts_in(r.kind) ? own_part(r, me) + i : i;
  if (r.kind == CollectiveKind::scan) return sum_of(r, 0, me + 1, at);
  if (r.kind == CollectiveKind::exclusive_scan) return me == 0 ? neutral(r.op) : sum_of(r, 0, me, at);
  return sum_of(r, 0, size, at);
}

}  // namespace lockstep::comm_check
