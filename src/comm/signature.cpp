// SPDX-License-Identifier: Apache-2.0
#include "comm/signature.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// Kind, dtype and operator in four bits each, root in 12, count in 40.
std::uint64_t pack(const Collective& c) {
  if (is_message(c.kind)) {  // the same on both sides
    const std::int64_t count = std::max(c.in.count, c.out.count).value;
    return static_cast<std::uint64_t>(CollectiveKind::send) | static_cast<std::uint64_t>(c.out.dtype) << 4U |
           static_cast<std::uint64_t>(count) << 24U;
  }
  const bool scatter = c.kind == CollectiveKind::reduce_scatter;
  const auto count = static_cast<std::uint64_t>((scatter ? c.out : c.in).count.value);
  return static_cast<std::uint64_t>(c.kind) | static_cast<std::uint64_t>(c.out.dtype) << 4U |
         static_cast<std::uint64_t>(c.op) << 8U | (static_cast<std::uint64_t>(c.root.value) & 0xfffU) << 12U |
         count << 24U;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 32U;
}

/// Ranks that call the same.
struct Party {
  Signature signature;
  std::vector<int> ranks;
};

/// The parties come in the order of their first ranks.
std::vector<Party> parties(std::span<const std::byte> signatures) {
  std::vector<Party> all;
  for (std::size_t rank = 0; rank * sizeof(Signature) < signatures.size(); ++rank) {
    Signature signature;
    std::memcpy(&signature, signatures.data() + rank * sizeof signature, sizeof signature);
    auto party = std::find_if(all.begin(), all.end(), [&](const Party& p) { return p.signature == signature; });
    if (party == all.end()) party = all.insert(all.end(), {signature, {}});
    party->ranks.push_back(static_cast<int>(rank));
  }
  return all;
}

/// "ranks 1, 3 call barrier"
std::string who_calls_what(const Party& party) {
  std::string list;
  for (const int rank : party.ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  const bool one = party.ranks.size() == 1;
  return (one ? "rank " : "ranks ") + list + (one ? " calls " : " call ") + describe(party.signature);
}

}  // namespace

Signature signature_of(const Collective& collective) {
  Signature result{.call = pack(collective)};
  const Rank root = is_message(collective.kind) ? Rank{0} : collective.root;
  result.hash = mix(mix(0, result.call), static_cast<std::uint64_t>(root.value));
  for (const char c : collective.label) result.hash = mix(result.hash, static_cast<unsigned char>(c));
  return result;
}

std::string describe(const Signature& signature) {
  const std::uint64_t call = signature.call;
  const auto kind = static_cast<CollectiveKind>(call & 0xfU);
  std::string text(is_message(kind) ? "send/recv" : name(kind));
  if (kind == CollectiveKind::barrier) return text;
  text += " of " + std::to_string(call >> 24U) + " " + std::string(name(static_cast<DType>(call >> 4U & 0xfU)));
  const bool adds = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
                    kind == CollectiveKind::reduce || kind == CollectiveKind::reduce_then;
  if (adds) text += " (" + std::string(name(static_cast<ReduceOp>(call >> 8U & 0xfU))) + ")";
  const std::string root = std::to_string(call >> 12U & 0xfffU);
  if (kind == CollectiveKind::broadcast) text += " from rank " + root;
  if (kind == CollectiveKind::reduce) text += " to rank " + root;
  return text;
}

Error disagreement(int rank, const Signature& theirs, const Signature& ours) {
  const std::string who = "rank " + std::to_string(rank);
  return Error(ErrorCode::mismatch,
               theirs.call == ours.call
                   ? who + " gives this " + describe(ours) + " another label"
                   : who + " calls " + describe(theirs) + " where this rank calls " + describe(ours),
               {.peers = {rank}});
}

void require_agreement(std::span<const std::byte> signatures) {
  // All equal, as nearly always: each is the same as the one before it.
  constexpr std::size_t one = sizeof(Signature);
  if (std::equal(signatures.begin() + one, signatures.end(), signatures.begin())) return;
  std::vector<Party> all = parties(signatures);
  const std::size_t ranks = signatures.size() / one;
  const auto majority =
      std::find_if(all.begin(), all.end(), [&](const Party& p) { return 2 * p.ranks.size() > ranks; });
  std::string ending;
  if (majority != all.end()) {
    ending = " where the others call " + describe(majority->signature);
    all.erase(majority);
  }
  std::string text;
  std::vector<int> odd;
  for (const Party& party : all) {
    text += (text.empty() ? "" : "; ") + who_calls_what(party);
    odd.insert(odd.end(), party.ranks.begin(), party.ranks.end());
  }
  throw Error(ErrorCode::mismatch, text + ending + " (what reads the same differs in its label)",
              {.peers = std::move(odd)});
}

}  // namespace lockstep
