// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "backends/plan/thread_medium.hpp"

namespace lockstep::schedules {

/// Messages that do all that MPI allows: a send completes eagerly, when its data have been copied away, or only when it
/// has been received; whatever is complete may look incomplete for a while, so that messages of different tags overtake
/// each other; and a tag has as few bits as MPI promises.
class FickleMedium final : public backends::Medium {
 public:
  /// Copies of what was sent eagerly, which may be received after the sender has gone.
  using Copies = std::vector<std::unique_ptr<std::byte[]>>;

  /// @param copies      of all ranks; live as long as the boxes
  /// @param short_tags  as short as MPI allows, or as Open MPI's
  FickleMedium(std::shared_ptr<backends::LetterBoxes> boxes, std::shared_ptr<Copies> copies, Rank me, int lanes,
               std::uint64_t seed, bool short_tags);

  Ticket send(Rank peer, const backends::MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const backends::MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  void look(const backends::MessageTag& ours) override;
  void close() override {}

 private:
  struct Slot {
    bool used = false;
    bool eager = false;  ///< is complete, whether it has been received or not
    Ticket inner;
    int looks_incomplete = 0;  ///< so often
  };
  Ticket take_slot(Ticket inner, bool eager);
  [[nodiscard]] backends::MessageTag shortened(const backends::MessageTag& tag) const;

  backends::ThreadMedium inner_;
  std::shared_ptr<Copies> copies_;
  std::mt19937_64 random_;
  unsigned tag_bits_;  ///< of number and signature, each
  std::vector<Slot> slots_;
};

}  // namespace lockstep::schedules
