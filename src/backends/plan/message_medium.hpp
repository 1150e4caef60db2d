// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/plan/medium.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

/// Messages by MPI's nonblocking point-to-point calls, on a communicator of its own.
///
/// MPI's tag is the lane and, in the bits that it has left, half of them each, the operation's number and its
/// signature: a message of somebody who calls something else matches no receive, and `look` finds it.
class MessageMedium : public Medium {
 public:
  /// Duplicates the group's communicator: collective. @param lanes  of its messages. @throws Error{transport}
  MessageMedium(const MpiGroup& group, int lanes);

  Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  void look(const MessageTag& ours) override;
  [[nodiscard]] bool is_shared() const override { return true; }
  void help_others() override;
  void close() override;

 private:
  struct Slot {
    MPI_Request request;
    int expected_bytes;  // of a receive; −1 for a send
  };
  /// A message that came before its receive and was taken out of MPI's queue, to see what came after it.
  struct Early {
    int peer;
    int tag;
    MPI_Message message;
  };
  /// How a MessageTag goes into one of MPI's.
  struct TagBits {
    TagBits(MPI_Comm communicator, int lanes);
    [[nodiscard]] int pack(const MessageTag& tag) const;
    /// As far as it went into the tag. @param from  who sent it
    [[nodiscard]] MessageTag unpack(int tag, int from) const;

    int lane_of_complaints;
    int lane_of_two;  // the one after it is that of the rest
    unsigned lane;
    unsigned number;
    unsigned signature;
  };
  Ticket free_slot(int expected_bytes);
  [[nodiscard]] Slot& at(Ticket ticket) { return slots_[static_cast<std::size_t>(ticket.slot)]; }
  void take_early_messages();
  void heed(Early& complaint, const Signature& ours);
  void complain(const Complaint& complaint);

  MpiGroup group_;
  MPI_Comm communicator_;
  TagBits bits_;
  int complaint_tag_;
  std::vector<Slot> slots_;
  std::vector<int> free_;
  std::vector<Early> early_;  // in the order of arrival
  Complaint complaint_;       // this rank's, on its way
};

}  // namespace lockstep::backends
