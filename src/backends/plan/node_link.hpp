// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/plan/seams.hpp"
#include "collectives/plan/plan.hpp"
#include "comm/call_signature.hpp"
#include "kernels/reduce.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep::backends {

/// What a rank shows the other ranks of its node when it opens a block: its call, and the location of its data.
struct Announcement {
  static constexpr std::uint64_t staged = ~std::uint64_t{0};  ///< special location: the data are in the staging area

  std::uint64_t input = staged;
  std::uint64_t output = staged;
  CallSignature signature;
};

/// One rank's end of the link by which the ranks of a node tell each other how far they have come.
///
/// There is one channel for each block that can be in flight. A channel carries block after block, in `slots` slots
/// in turn. A slot consists of a flag, the announcement, and the staging area behind them, which begins on the
/// flag's cache line, so that a few bytes of data arrive with the flag.
///
/// **When a slot may be opened again.** Block B uses the slot of block B − S, where S is the number of slots, so no
/// rank may still use that block. A rank enters a block by publishing phase 0, the first step of a plan that other
/// ranks could notice, and has then left all earlier blocks of the channel. Therefore:
/// - B is opened only when every rank of the node has entered B − S + 1. Usually that is known: a rank that has awaited
///   all others in a block, or ranks that together have, knows that they entered it. Otherwise it checks their flags in
///   the slot of B − S + 1, and accepts a number that is not lower; the block stays unopened as long as one rank is
///   missing.
/// - A flag that is awaited in block B shows the number B. It cannot show a later one, because no rank opens B + S
///   before this rank has entered B + 1; a lower number means that the rank has not arrived yet.
/// By this rule ranks wait only for earlier blocks, so it adds no deadlock. `prove_succession` proves the rule for
/// the plans in use.
///
/// The flag is one word: the rank's progress, and 32 bits of its signature. A peer that makes a different call is
/// therefore detected when it is awaited, at no extra cost.
class NodeLink {
 public:
  static constexpr int phases = 4;                               ///< maximum number of phases of a block
  static constexpr int slots = collectives::slots_of_a_channel;  ///< a power of two, because block numbers wrap

  /// Returns the bytes of control area that a link needs. @param staging  bytes of one block's staging area
  static Bytes control_bytes(int channels, Bytes staging);

  /// @param ranks  the communicator's ranks on this node, in the order of the memory's ranks
  NodeLink(std::shared_ptr<NodeMemory> memory, std::vector<int> ranks, int channels, Bytes staging);

  [[nodiscard]] NodeMemory& memory() const { return *memory_; }

  /// Opens the next block on a channel if its slot is free. The first publish makes the announcement visible.
  /// @return nothing; or a rank that has not yet entered an earlier block, in which case nothing has changed
  [[nodiscard]] std::optional<int> open(int channel, const Announcement& announcement);
  /// Announces that this rank has done all steps of `phase`.
  void publish(int channel, int phase) {
    const Channel& own = channels_[static_cast<std::size_t>(channel)];
    const std::uint64_t reached = own.first_phase() + static_cast<std::uint32_t>(phase);
    seams::check_guard(guard(channel));
    slot(local_rank_, channel).flag.store(reached << 32U | short_form(own.signature), std::memory_order_release);
    memory_->ring();
  }
  /// Returns whether `rank` has published `phase` of this block.
  /// @throws Error{mismatch} if it makes a different call; Error{corrupt} if it is in a later block, which the rule
  ///         excludes
  [[nodiscard]] bool has_published(int channel, int rank, int phase) const {
    const Channel& own = channels_[static_cast<std::size_t>(channel)];
    const std::uint64_t flag = slot(local(rank), channel).flag.load(std::memory_order_acquire);
    const auto reached = static_cast<std::uint32_t>(flag >> 32U);
    if (is_before(reached, own.first_phase())) return false;
    const bool is_in_block = reached - own.first_phase() < phases;
    if (!is_in_block || static_cast<std::uint32_t>(flag) != short_form(own.signature)) check_flag(channel, rank, flag);
    return !is_before(reached, own.first_phase() + static_cast<std::uint32_t>(phase));
  }
  /// Records that the ranks that an Await names have published. If these are all other ranks, or have heard of them,
  /// all have entered the block.
  void note_awaited(int channel, const collectives::Await& await) {
    if (await.hears_of_all || await.peers.size() + 1 == ranks_.size())
      channels_[static_cast<std::size_t>(channel)].note_entered();
  }

  /// Prefetches the memory that this rank writes first when it opens the next block, with `staging` bytes of its
  /// staging area, because the other ranks have read it last. It pays off while this rank waits. It does nothing unless
  /// all ranks are known to have entered this block, since others still read that memory.
  void prefetch_next(int channel, Bytes staging) const {
    const Channel& own = channels_[static_cast<std::size_t>(channel)];
    if (own.entered != own.block) return;
    const auto* const begin = reinterpret_cast<const std::byte*>(&slot_of(local_rank_, channel, own.block + 1));
    kernels::prefetch_for_writing(begin, {static_cast<std::int64_t>(sizeof(Slot)) + staging.value});
  }

  /// Returns this rank's staging area.
  [[nodiscard]] std::byte* staging(int channel) const { return data(local_rank_, channel); }
  /// The location of another rank's data.
  struct Shown {
    std::byte* data;
    bool is_staged;  ///< otherwise `data` is the beginning of its whole buffer
  };
  /// Returns where `rank` shows its input. @pre it has published a phase of this block
  [[nodiscard]] Shown input_of(int channel, int rank) const;
  [[nodiscard]] Shown output_of(int channel, int rank) const;

  /// @throws Error{transport} naming a rank of the node whose process has ended, or that gave up (then a consequence);
  ///         Error{mismatch} if that rank did something else before
  void check_alive() const;

 private:
  struct Slot {
    std::atomic<std::uint64_t> flag;
    std::uint64_t input;
    std::uint64_t output;
    std::uint64_t call;
  };
  struct Channel {
    std::uint32_t block = 0;    // number of blocks that have been opened
    std::uint32_t entered = 0;  // last block that all ranks of the node are known to have entered
    std::int64_t slot = 0;      // offset of the block's slot in every rank's area
    CallSignature signature;
    [[nodiscard]] std::uint32_t first_phase() const { return block * phases; }
    void note_entered() { entered = block; }
  };
  static Bytes slot_bytes(Bytes staging);
  /// Returns the bits of a signature that fit into a flag.
  static std::uint32_t short_form(const CallSignature& signature) { return static_cast<std::uint32_t>(signature.hash); }
  /// Compares numbers that wrap.
  static bool is_before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }
  [[nodiscard]] std::int64_t slot_offset(int channel, std::uint32_t block) const {
    static_assert((slots & (slots - 1)) == 0);
    return (slots * channel + static_cast<int>(block & (slots - 1U))) * slot_bytes_;
  }
  [[nodiscard]] Slot& slot_of(int local_rank, int channel, std::uint32_t block) const {
    return *reinterpret_cast<Slot*>(areas_[static_cast<std::size_t>(local_rank)] + slot_offset(channel, block));
  }
  [[nodiscard]] Slot& slot(int local_rank, int channel) const {
    return *reinterpret_cast<Slot*>(areas_[static_cast<std::size_t>(local_rank)] +
                                    channels_[static_cast<std::size_t>(channel)].slot);
  }
  void check_flag(int channel, int rank, std::uint64_t flag) const;
  [[nodiscard]] std::byte* data(int local_rank, int channel) const {
    return reinterpret_cast<std::byte*>(&slot(local_rank, channel)) + sizeof(Slot);
  }
  [[nodiscard]] std::byte* guard(int channel) const {
    return reinterpret_cast<std::byte*>(&slot(local_rank_, channel)) + slot_bytes_ - seams::guard_bytes;
  }
  [[nodiscard]] std::optional<int> first_not_in(int channel, std::uint32_t block) const;
  [[nodiscard]] Shown shown(int local_rank, int channel, std::uint64_t location) const;
  [[nodiscard]] int local(int rank) const { return local_of_rank_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<NodeMemory> memory_;
  std::vector<std::byte*> areas_;  // control areas, by rank of the node
  std::vector<int> ranks_;
  std::vector<int> local_of_rank_;
  int local_rank_;
  std::int64_t slot_bytes_;
  std::vector<Channel> channels_;
};

}  // namespace lockstep::backends
