// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "backends/plan/medium.hpp"
#include "backends/plan/thread_medium.hpp"

namespace lockstep::schedules {

/// A medium whose messages do everything that MPI allows. A send completes eagerly, when its data have been copied, or
/// only when it has been received. A complete message may look incomplete for a while, so that messages with different
/// tags overtake each other. A tag has only as many bits as MPI guarantees.
class FickleMedium final : public backends::Medium {
 public:
  /// The state that all ranks share.
  struct Traffic {
    explicit Traffic(int ranks) : newest(static_cast<std::size_t>(ranks)) {}

    /// Copies of data that were sent eagerly, which may be received after the sender has gone.
    std::vector<std::unique_ptr<std::byte[]>> copies;
    std::vector<std::uint64_t> newest;  ///< for each rank, the last operation in which it has sent or awaited a message
    std::uint64_t most_ahead = 0;       ///< the most operations by which one rank was ahead of another
  };

  /// @param traffic     lives as long as the mailboxes
  /// @param short_tags  tags are as short as MPI allows; otherwise as long as Open MPI's
  FickleMedium(std::shared_ptr<backends::Mailboxes> boxes, std::shared_ptr<Traffic> traffic, Rank me, int channels,
               std::uint64_t seed, bool short_tags);

  Ticket send(Rank peer, const backends::MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const backends::MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  void close() override {}

 private:
  struct Message {
    bool used = false;
    bool eager = false;  ///< complete, whether it has been received or not
    Ticket inner;
    int looks_incomplete = 0;  ///< how many more times it looks incomplete
  };
  Ticket take_message(Ticket inner, bool eager);
  [[nodiscard]] backends::MessageTag shortened(const backends::MessageTag& tag) const;

  backends::ThreadMedium inner_;
  void note(std::uint64_t number);

  Rank me_;
  std::shared_ptr<Traffic> traffic_;
  std::mt19937_64 random_;
  std::uint64_t eager_of_4_;  ///< how many of 4 sends are eager
  backends::TagBits bits_;
  std::vector<Message> messages_;
};

}  // namespace lockstep::schedules
