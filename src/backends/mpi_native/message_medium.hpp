// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "backends/plan/medium.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep::backends {

/// Messages by MPI's nonblocking point-to-point calls, on a communicator of its own. A message of a rank that makes a
/// different call has another tag, and matches no receive.
class MessageMedium : public Medium {
 public:
  /// Duplicates the group's communicator. Collective. @param channels  number of channels. @throws Error{transport}
  MessageMedium(const RankSet& group, int channels);

  Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  [[nodiscard]] bool is_shared() const override { return true; }
  bool help_others() override;
  void close() override;

 private:
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    int expected_bytes = -1;  // size of a receive; −1 for a send
    int peer = -1;            // set for a receive only, as the following members
    int tag = -1;
    void* into = nullptr;
    bool unseen = false;  // whether it is in unseen_
  };
  Ticket idle_message(int expected_bytes);
  void post(Message& message);
  bool is_there(Ticket ticket);
  [[nodiscard]] Message& at(Ticket ticket) { return messages_[static_cast<std::size_t>(ticket.index)]; }

  RankSet group_;
  MPI_Comm communicator_;
  TagBits bits_;
  std::vector<Message> messages_;
  std::vector<int> free_;
  // Receives that are posted only when their messages have been probed, in the order in which they are awaited.
  std::vector<int> unseen_;
};

}  // namespace lockstep::backends
