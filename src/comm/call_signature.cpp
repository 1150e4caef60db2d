// SPDX-License-Identifier: Apache-2.0
#include "comm/call_signature.hpp"

#include <algorithm>

namespace lockstep {
namespace {

constexpr unsigned root_shift = 12;
constexpr std::uint64_t root_mask = 0xfff;

/// Returns whether all ranks pass the same per-rank counts. In an all_to_all_v each rank passes its own.
bool has_common_parts(CollectiveKind kind) { return has_part_counts(kind) && kind != CollectiveKind::all_to_all_v; }

std::uint64_t hash_of_parts(const Collective& c) {
  std::uint64_t hash = 0;
  if (has_common_parts(c.kind))
    for (const Count part : c.parts) hash = combine(hash, static_cast<std::uint64_t>(part.value));
  return hash;
}

/// Returns the elements of the buffer or, if each rank has an equal part, of one part; if the parts differ in size, of
/// all parts together.
std::uint64_t counted(const Collective& c) {
  switch (c.kind) {
    case CollectiveKind::all_to_all_v: return 0;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scatter:
    case CollectiveKind::all_gather_v: return static_cast<std::uint64_t>(c.out.count.value);
    default: return static_cast<std::uint64_t>(c.in.count.value);
  }
}

/// Returns what the root's bits hold. An all_reduce has no root, so its number of leaves is stored there. Kinds with
/// per-rank counts have no root either: a digest of the counts reveals counts that differ but have the same total.
std::uint64_t root_or_digest(const Collective& c) {
  if (c.leaves.shares.total() > 0) return static_cast<std::uint64_t>(c.leaves.shares.total());
  return has_common_parts(c.kind) ? hash_of_parts(c) >> 20U : static_cast<std::uint64_t>(c.root.value);
}

bool differ_in_parts_only(std::uint64_t a, std::uint64_t b) {
  const auto kind = static_cast<CollectiveKind>(a & 0xfU);
  return has_common_parts(kind) && a != b && ((a ^ b) & ~(root_mask << root_shift)) == 0;
}

// The kind, dtype and operator take four bits each, the root (or leaves, or digest of the counts) 12, the count 40.
std::uint64_t pack(const Collective& c) {
  if (is_message(c.kind)) {  // packed equally on both sides
    const std::int64_t count = std::max(c.in.count, c.out.count).value;
    return static_cast<std::uint64_t>(CollectiveKind::send) | static_cast<std::uint64_t>(c.out.dtype) << 4U |
           static_cast<std::uint64_t>(count) << 24U;
  }
  return static_cast<std::uint64_t>(c.kind) | static_cast<std::uint64_t>(c.out.dtype) << 4U |
         static_cast<std::uint64_t>(c.op) << 8U | (root_or_digest(c) & root_mask) << root_shift | counted(c) << 24U;
}

/// Ranks that make the same call.
struct SameCall {
  CallSignature signature;
  std::vector<int> ranks;
};

/// Groups the ranks by call, in the order of the first rank of each group.
std::vector<SameCall> grouped_by_call(std::span<const std::byte> signatures) {
  std::vector<SameCall> all;
  for (std::size_t rank = 0; rank * sizeof(CallSignature) < signatures.size(); ++rank) {
    CallSignature signature;
    std::memcpy(&signature, signatures.data() + rank * sizeof signature, sizeof signature);
    auto group = std::find_if(all.begin(), all.end(), [&](const SameCall& p) { return p.signature == signature; });
    if (group == all.end()) group = all.insert(all.end(), {signature, {}});
    group->ranks.push_back(static_cast<int>(rank));
  }
  return all;
}

/// Returns text such as "ranks 1, 3 call barrier".
std::string who_calls_what(const SameCall& group) {
  std::string list;
  for (const int rank : group.ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  const bool one = group.ranks.size() == 1;
  return (one ? "rank " : "ranks ") + list + (one ? " calls " : " call ") + describe(group.signature);
}

}  // namespace

CallSignature signature_of(const Collective& collective) {
  CallSignature result{.call = pack(collective)};
  const Rank root = is_message(collective.kind) ? Rank{0} : collective.root;
  result.hash = combine(combine(0, result.call), static_cast<std::uint64_t>(root.value));
  if (const LeafShares& shares = collective.leaves.shares; shares.total() > 0) {
    result.hash = combine(result.hash, static_cast<std::uint64_t>(shares.total()));
    for (int rank = 0; rank < shares.ranks(); ++rank)
      result.hash = combine(result.hash, static_cast<std::uint64_t>(shares.of(rank, shares.ranks()).count));
    result.hash = combine(result.hash, static_cast<std::uint64_t>(collective.leaves.stride.value));
  }
  if (has_common_parts(collective.kind)) result.hash = combine(result.hash, hash_of_parts(collective));
  for (std::string_view rest = collective.label; !rest.empty();) {
    std::uint64_t word = 0;
    const std::size_t length = std::min(rest.size(), sizeof word);
    std::memcpy(&word, rest.data(), length);
    result.hash = combine(result.hash, word);
    rest.remove_prefix(length);
  }
  return result;
}

CollectiveKind kind_of(const CallSignature& signature) { return static_cast<CollectiveKind>(signature.call & 0xfU); }

std::string describe(const CallSignature& signature) {
  const std::uint64_t call = signature.call;
  const CollectiveKind kind = kind_of(signature);
  std::string text(is_message(kind) ? "send/recv" : name(kind));
  if (kind == CollectiveKind::barrier) return text;
  text += " of ";
  if (kind != CollectiveKind::all_to_all_v) text += std::to_string(call >> 24U) + " ";
  text += std::string(name(static_cast<DType>(call >> 4U & 0xfU)));
  if (has_common_parts(kind)) text += " in all";
  if (is_reduction(kind)) text += " (" + std::string(name(static_cast<ReduceOp>(call >> 8U & 0xfU))) + ")";
  const std::string root = std::to_string(call >> 12U & 0xfffU);
  if (kind == CollectiveKind::all_reduce && root != "0") text += " over " + root + " leaves";
  const bool comes = kind == CollectiveKind::broadcast || kind == CollectiveKind::scatter;
  if (has_root(kind)) text += (comes ? " from rank " : " to rank ") + root;
  return text;
}

Error disagreement(int rank, const CallSignature& theirs, const CallSignature& ours) {
  const std::string who = "rank " + std::to_string(rank);
  if (differ_in_parts_only(theirs.call, ours.call)) {
    return Error(ErrorCode::mismatch, who + " divides this " + describe(ours) + " into other parts: its counts differ",
                 {.peers = {rank}});
  }
  return Error(ErrorCode::mismatch,
               theirs.call == ours.call
                   ? who + " gives this " + describe(ours) + " another label"
                   : who + " calls " + describe(theirs) + " where this rank calls " + describe(ours),
               {.peers = {rank}});
}

Error earlier_disagreement(int rank, const CallSignature& theirs, const CallSignature& ours, std::uint64_t number,
                           bool is_first) {
  const std::string who = "rank " + std::to_string(rank);
  std::string what = who + " called " + describe(theirs) + " where this rank called " + describe(ours);
  if (theirs.call == ours.call) what = who + " gave " + describe(ours) + " another label";
  if (differ_in_parts_only(theirs.call, ours.call)) what = who + " divided " + describe(ours) + " into other parts";
  const std::string when = "operation " + std::to_string(number + 1) + " of this communicator";
  const std::string text = is_first ? "an earlier operation was called differently: " + what + ", as " + when
                                    : "earlier operations were called differently, " + when +
                                          " or one before it: " + (theirs.call == ours.call ? who + " differs" : what);
  return Error(ErrorCode::mismatch, text, {.peers = {rank}});
}

void require_agreement(std::span<const std::byte> signatures) {
  // In the common case all signatures are equal: each equals the one before it.
  constexpr std::size_t one = sizeof(CallSignature);
  if (std::equal(signatures.begin() + one, signatures.end(), signatures.begin())) return;
  std::vector<SameCall> all = grouped_by_call(signatures);
  const std::size_t ranks = signatures.size() / one;
  const auto majority =
      std::find_if(all.begin(), all.end(), [&](const SameCall& p) { return 2 * p.ranks.size() > ranks; });
  std::string ending;
  if (majority != all.end()) {
    ending = " where the others call " + describe(majority->signature);
    all.erase(majority);
  }
  std::string text;
  std::vector<int> odd;
  for (const SameCall& group : all) {
    text += (text.empty() ? "" : "; ") + who_calls_what(group);
    odd.insert(odd.end(), group.ranks.begin(), group.ranks.end());
  }
  throw Error(ErrorCode::mismatch,
              text + ending + " (what reads the same differs in its label, or in the counts of its parts or leaves)",
              {.peers = std::move(odd)});
}

void require_equal_pairs(std::span<const std::byte> counts) {
  std::vector<Count> all(counts.size() / sizeof(Count));
  std::memcpy(all.data(), counts.data(), all.size() * sizeof(Count));
  std::size_t ranks = 0;
  while (2 * ranks * ranks < all.size()) ++ranks;
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      const Count sent = all[2 * ranks * from + to];
      const Count expected = all[2 * ranks * to + ranks + from];
      if (sent == expected) continue;
      throw Error(ErrorCode::mismatch,
                  "rank " + std::to_string(from) + " sends " + std::to_string(sent.value) + " elements to rank " +
                      std::to_string(to) + ", which expects " + std::to_string(expected.value),
                  {.peers = {static_cast<int>(from), static_cast<int>(to)}});
    }
  }
}

}  // namespace lockstep
