#include "backends/plan/message_medium.hpp"

#include <climits>
#include <string>

#include "lockstep/base/error.hpp"
#include "platform/mpi.hpp"

namespace lockstep::backends {
namespace {

int message_size(Bytes bytes) {
  if (bytes.value > INT_MAX) {
    throw Error(ErrorCode::invalid_argument, "a message of " + std::to_string(bytes.value) +
                                                 " bytes is beyond MPI's limit: choose a smaller segment");
  }
  return static_cast<int>(bytes.value);
}

}  // namespace

MessageMedium::MessageMedium(const MpiGroup& group) : group_(group.dup()), communicator_(communicator(group_)) {
  // How many messages are under way at a time depends on the peers' pace; growing for it in mid-training would
  // allocate.
  constexpr std::size_t plenty = 256;
  slots_.reserve(plenty);
  free_.reserve(plenty);
}

Medium::Ticket MessageMedium::send(Rank peer, int tag, const void* data, Bytes bytes) {
  const Ticket ticket = free_slot(-1);
  LOCKSTEP_MPI(MPI_Isend(data, message_size(bytes), MPI_BYTE, peer.value, tag, communicator_, &at(ticket).request),
               .peers = {peer.value}, .bytes = bytes.value);
  return ticket;
}

Medium::Ticket MessageMedium::receive(Rank peer, int tag, void* data, Bytes bytes) {
  const Ticket ticket = free_slot(message_size(bytes));
  LOCKSTEP_MPI(MPI_Irecv(data, message_size(bytes), MPI_BYTE, peer.value, tag, communicator_, &at(ticket).request),
               .peers = {peer.value}, .bytes = bytes.value);
  return ticket;
}

bool MessageMedium::test(Ticket ticket) {
  Slot& slot = at(ticket);
  int complete = 0;
  MPI_Status status;
  LOCKSTEP_MPI(MPI_Test(&slot.request, &complete, &status));
  if (complete == 0) return false;
  int arrived = slot.expected_bytes;
  if (slot.expected_bytes >= 0) LOCKSTEP_MPI(MPI_Get_count(&status, MPI_BYTE, &arrived));
  if (arrived != slot.expected_bytes) {
    throw Error(ErrorCode::mismatch,
                "a message of " + std::to_string(arrived) + " bytes arrived where " +
                    std::to_string(slot.expected_bytes) + " were expected: do all ranks pass the same count?",
                {.peers = {status.MPI_SOURCE}});
  }
  free_.push_back(ticket.slot);
  return true;
}

void MessageMedium::close() { group_.close(); }

Medium::Ticket MessageMedium::free_slot(int expected_bytes) {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(slots_.size()));
    slots_.push_back({MPI_REQUEST_NULL, -1});
    free_.reserve(slots_.size());
  }
  const int slot = free_.back();
  free_.pop_back();
  slots_[static_cast<std::size_t>(slot)].expected_bytes = expected_bytes;
  return {slot};
}

}  // namespace lockstep::backends
