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
#include "comm/signature.hpp"
#include "kernels/prefetch.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep::backends {

/// What a rank tells the others of its node when it takes up a block: what it does, and where its data lie.
struct Announcement {
  static constexpr std::uint64_t staged = ~std::uint64_t{0};  ///< instead of a location: in the staging area

  std::uint64_t input = staged;
  std::uint64_t output = staged;
  Signature signature;
};

/// Through what the ranks of a node tell each other how far they are: one rank's end.
///
/// There are channels, one for each block that can be under way. A channel carries block after block, in `slots` slots
/// by turns. A slot is a flag, the announcement, and the staging area behind them, which begins on the flag's cache
/// line: a few bytes of data come with the flag.
///
/// **When a slot may be opened again.** Block B uses the slot of block B − S, where S is the number of slots, so nobody
/// may have anything to do with that one any more. A rank enters a block by publishing phase 0, its first step of a
/// plan that others could notice, and has left all earlier blocks of the channel then. So:
/// - B is opened only when every rank of the node has entered B − S + 1. Mostly that is known: who has awaited all
///   others in a block knows that they entered it. Else their flags in the slot of B − S + 1 are looked at, and a
///   number that is not lower is accepted; the block stays unopened as long as one is missing.
/// - A flag that is awaited in block B shows the number B. It cannot show a later one, for nobody opens B + S before
///   this rank has entered B + 1; a lower one is of a rank that has not come yet.
/// Ranks wait only for earlier blocks by this, so it adds no deadlock. `prove_succession` proves it for what plans do.
///
/// The flag is one word: how far the rank is, and 32 bits of its signature. So a peer that does something else is found
/// out when it is awaited, at no cost.
class NodeLink {
 public:
  static constexpr int phases = 4;                               ///< of a block, at most
  static constexpr int slots = collectives::slots_of_a_channel;  ///< a power of two, because block numbers wrap

  /// Bytes of control area that a link needs. @param staging  of one block
  static Bytes control_bytes(int channels, Bytes staging);

  /// @param ranks  of the communicator that are on this node, in the order of the memory's ranks
  NodeLink(std::shared_ptr<NodeMemory> memory, std::vector<int> ranks, int channels, Bytes staging);

  [[nodiscard]] NodeMemory& memory() const { return *memory_; }

  /// Takes up the next block on a channel, if its slot is free. The announcement is seen with the first phase.
  /// @return nothing; or a rank that has still to enter an earlier block, and then nothing has changed
  [[nodiscard]] std::optional<int> open(int channel, const Announcement& announcement);
  /// Tells that this rank has done what it had to do up to `phase`.
  void publish(int channel, int phase) {
    const Channel& own = channels_[static_cast<std::size_t>(channel)];
    const std::uint64_t reached = own.first_phase() + static_cast<std::uint32_t>(phase);
    seams::check_guard(guard(channel));
    slot(local_rank_, channel).flag.store(reached << 32U | short_form(own.signature), std::memory_order_release);
    memory_->ring();
  }
  /// Whether `rank` has published `phase` of this block. @throws Error{mismatch} if it does something else;
  ///         Error{corrupt} if it is in a later block, which the rule excludes
  [[nodiscard]] bool has_published(int channel, int rank, int phase) const {
    const Channel& own = channels_[static_cast<std::size_t>(channel)];
    const std::uint64_t flag = slot(local(rank), channel).flag.load(std::memory_order_acquire);
    const auto reached = static_cast<std::uint32_t>(flag >> 32U);
    if (is_before(reached, own.first_phase())) return false;
    const bool is_in_block = reached - own.first_phase() < phases;
    if (!is_in_block || static_cast<std::uint32_t>(flag) != short_form(own.signature)) check_flag(channel, rank, flag);
    return !is_before(reached, own.first_phase() + static_cast<std::uint32_t>(phase));
  }
  /// Takes note that as many `peers` as an Await named have published: if they are all others, all have entered.
  void note_awaited(int channel, std::size_t peers) {
    if (peers + 1 == ranks_.size()) channels_[static_cast<std::size_t>(channel)].note_entered();
  }

  /// Fetches the memory that this rank writes first when it takes up the next block, `staging` bytes of staging area
  /// with it: the others have read it last. Worth while what is waited for is on its way.
  /// @pre all ranks have entered this block, so that nobody reads there any more
  void prefetch_next(int channel, Bytes staging) const {
    const std::uint32_t next = channels_[static_cast<std::size_t>(channel)].block + 1;
    const auto* const begin = reinterpret_cast<const std::byte*>(&slot_of(local_rank_, channel, next));
    kernels::prefetch_for_writing(begin, {static_cast<std::int64_t>(sizeof(Slot)) + staging.value});
  }

  /// This rank's staging area.
  [[nodiscard]] std::byte* staging(int channel) const { return data(local_rank_, channel); }
  /// The staging area of another rank, if what it shows lies there.
  struct Shown {
    std::byte* data;
    bool is_staged;  ///< else `data` is the beginning of its whole buffer
  };
  /// Where `rank` shows its input. @pre it has published a phase of this block
  [[nodiscard]] Shown input_of(int channel, int rank) const;
  [[nodiscard]] Shown output_of(int channel, int rank) const;

  /// @throws Error{transport} naming a rank of the node whose process has ended, or that gave up: then a consequence;
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
    std::uint32_t block = 0;    // how many have been opened
    std::uint32_t entered = 0;  // the last that all ranks of the node are known to have entered
    std::int64_t slot = 0;      // where in everybody's area the block's slot is
    Signature signature;
    [[nodiscard]] std::uint32_t first_phase() const { return block * phases; }
    void note_entered() { entered = block; }
  };
  static Bytes slot_bytes(Bytes staging);
  /// What of a signature fits into a flag.
  static std::uint32_t short_form(const Signature& signature) { return static_cast<std::uint32_t>(signature.hash); }
  /// Of numbers that wrap.
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
  std::vector<std::byte*> areas_;  // of control, by rank of the node
  std::vector<int> ranks_;
  std::vector<int> local_of_rank_;
  int local_rank_;
  std::int64_t slot_bytes_;
  std::vector<Channel> channels_;
};

}  // namespace lockstep::backends
