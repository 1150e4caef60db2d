#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "backends/plan/medium.hpp"
#include "lockstep/platform/mpi_group.hpp"

namespace lockstep::backends {

/// Messages by MPI's nonblocking point-to-point calls, on a communicator of its own.
class MessageMedium : public Medium {
 public:
  /// Duplicates the group's communicator: collective. @throws Error{transport}
  explicit MessageMedium(const MpiGroup& group);

  Ticket send(Rank peer, int tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, int tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  void close() override;

 private:
  struct Slot {
    MPI_Request request;
    int expected_bytes;  // of a receive; −1 for a send
  };
  Ticket free_slot(int expected_bytes);
  [[nodiscard]] Slot& at(Ticket ticket) { return slots_[static_cast<std::size_t>(ticket.slot)]; }

  MpiGroup group_;
  MPI_Comm communicator_;
  std::vector<Slot> slots_;
  std::vector<int> free_;
};

}  // namespace lockstep::backends
