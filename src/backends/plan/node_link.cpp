// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/node_link.hpp"

#include <algorithm>

namespace lockstep::backends {
namespace {

constexpr std::int64_t line_pair = 128;  // processors fetch cache lines in pairs

Error ahead(int rank) {
  return Error(ErrorCode::corrupt,
               "rank " + std::to_string(rank) +
                   " shows a later operation in the memory that this one still needs: please report this",
               {.peers = {rank}});
}

}  // namespace

Bytes NodeLink::slot_bytes(Bytes staging) {
  const auto bytes = static_cast<std::int64_t>(sizeof(Slot)) + staging.value;
  return {(bytes + line_pair - 1) / line_pair * line_pair + seams::guard_bytes};
}

Bytes NodeLink::control_bytes(int channels, Bytes staging) { return slots * channels * slot_bytes(staging); }

NodeLink::NodeLink(std::shared_ptr<NodeMemory> memory, std::vector<int> ranks, int channels, Bytes staging)
    : memory_(std::move(memory)),
      ranks_(std::move(ranks)),
      local_of_rank_(static_cast<std::size_t>(*std::max_element(ranks_.begin(), ranks_.end()) + 1), -1),
      local_rank_(memory_->rank()),
      slot_bytes_(slot_bytes(staging).value),
      channels_(static_cast<std::size_t>(channels)) {
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    local_of_rank_[static_cast<std::size_t>(ranks_[i])] = static_cast<int>(i);
  for (int local_rank = 0; local_rank < memory_->size(); ++local_rank) areas_.push_back(memory_->control(local_rank));
  for (int channel = 0; channel < channels; ++channel)
    channels_[static_cast<std::size_t>(channel)].slot = slot_offset(channel, 0);
}

std::optional<int> NodeLink::open(int channel, const Announcement& announcement) {
  Channel& own = channels_[static_cast<std::size_t>(channel)];
  const std::uint32_t left_when_entered = own.block + 1 - (slots - 1);
  if (is_before(own.entered, left_when_entered) && seams::keeps_slot_rule) {
    if (const auto late = first_not_in(channel, left_when_entered)) return late;
    own.entered = left_when_entered;
  }
  ++own.block;
  own.slot = slot_offset(channel, own.block);
  own.signature = announcement.signature;
  Slot& here = slot(local_rank_, channel);
  seams::raise_guard(guard(channel));
  here.input = announcement.input;
  seams::preempt();
  here.output = announcement.output;
  here.call = announcement.signature.call;
  return std::nullopt;
}

/// Returns the first rank of the node that has not entered `block` of this channel.
std::optional<int> NodeLink::first_not_in(int channel, std::uint32_t block) const {
  for (int local_rank = 0; local_rank < static_cast<int>(ranks_.size()); ++local_rank) {
    if (local_rank == local_rank_) continue;
    const std::uint64_t flag = slot_of(local_rank, channel, block).flag.load(std::memory_order_acquire);
    if (is_before(static_cast<std::uint32_t>(flag >> 32U), block * phases))
      return ranks_[static_cast<std::size_t>(local_rank)];
  }
  return std::nullopt;
}

/// Checks a flag that does not simply show that `rank` makes the same call. @throws as has_published
void NodeLink::check_flag(int channel, int rank, std::uint64_t flag) const {
  const Channel& own = channels_[static_cast<std::size_t>(channel)];
  const auto reached = static_cast<std::uint32_t>(flag >> 32U);
  const bool is_ahead = reached - own.first_phase() >= phases;
  if (is_ahead && seams::keeps_slot_rule) throw ahead(rank);
  if (!is_ahead && static_cast<std::uint32_t>(flag) != short_form(own.signature))
    throw disagreement(rank, {.call = slot(local(rank), channel).call}, own.signature);
}

NodeLink::Shown NodeLink::shown(int local_rank, int channel, std::uint64_t location) const {
  if (location == Announcement::staged) return {data(local_rank, channel), true};
  return {memory_->at(local_rank, location), false};
}

NodeLink::Shown NodeLink::input_of(int channel, int rank) const {
  return shown(local(rank), channel, slot(local(rank), channel).input);
}

NodeLink::Shown NodeLink::output_of(int channel, int rank) const {
  return shown(local(rank), channel, slot(local(rank), channel).output);
}

void NodeLink::check_alive() const {
  const std::optional<LostPeer> lost = memory_->lost_peer();
  if (!lost) return;
  const int rank = ranks_[static_cast<std::size_t>(lost->rank)];
  // The rank's last call may explain why it ended, and this rank may have awaited another rank and not have checked it.
  for (int channel = 0; channel < static_cast<int>(channels_.size()); ++channel) (void)has_published(channel, rank, 0);
  const std::string who = "rank " + std::to_string(rank) + ", a process on this host, has ";
  if (!lost->gave_up) throw Error(ErrorCode::transport, who + "ended", {.peers = {rank}});
  throw Error(ErrorCode::transport, who + "given up: " + lost->reason, {.peers = {rank}}).as_consequence();
}

}  // namespace lockstep::backends
