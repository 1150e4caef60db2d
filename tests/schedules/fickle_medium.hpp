// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "backends/plan/tag_bits.hpp"
#include "backends/plan/thread_medium.hpp"

namespace lockstep::schedules {

/// Messages that do all that MPI allows: a send completes eagerly, when its data have been copied away, or only when it
/// has been received; whatever is complete may look incomplete for a while, so that messages of different tags overtake
/// each other; and a tag has as few bits as MPI promises.
class FickleMedium final : public backends::Medium {
 public:
  /// Of all ranks.
  struct Traffic {
    explicit Traffic(int ranks) : newest(static_cast<std::size_t>(ranks)) {}

    /// Copies of what was sent eagerly, which may be received after the sender has gone.
    std::vector<std::unique_ptr<std::byte[]>> copies;
    std::vector<std::uint64_t> newest;  ///< the last operation in which each rank has sent or awaited a message
    std::uint64_t most_ahead = 0;       ///< by how many operations one of them was ahead of another
  };

  /// @param traffic     lives as long as the boxes
  /// @param short_tags  as short as MPI allows, or as Open MPI's
  FickleMedium(std::shared_ptr<backends::Mailboxes> boxes, std::shared_ptr<Traffic> traffic, Rank me, int channels,
               std::uint64_t seed, bool short_tags);

  Ticket send(Rank peer, const backends::MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const backends::MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  void close() override {}

 private:
  struct Message {
    bool used = false;
    bool eager = false;  ///< is complete, whether it has been received or not
    Ticket inner;
    int looks_incomplete = 0;  ///< so often
  };
  Ticket take_message(Ticket inner, bool eager);
  [[nodiscard]] backends::MessageTag shortened(const backends::MessageTag& tag) const;

  backends::ThreadMedium inner_;
  void note(std::uint64_t number);

  Rank me_;
  std::shared_ptr<Traffic> traffic_;
  std::mt19937_64 random_;
  std::uint64_t eager_of_4_;  ///< of its sends so many are
  backends::TagBits bits_;
  std::vector<Message> messages_;
};

}  // namespace lockstep::schedules
