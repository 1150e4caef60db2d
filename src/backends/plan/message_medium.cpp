// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/message_medium.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdint>
#include <string>

#include "lockstep/base/error.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep::backends {
namespace {

int message_size(Bytes bytes) {
  if (bytes.value > INT_MAX) {
    throw Error(ErrorCode::invalid_argument, "a message of " + std::to_string(bytes.value) +
                                                 " bytes is beyond MPI's limit: choose a smaller segment");
  }
  return static_cast<int>(bytes.value);
}

unsigned bits_of_a_tag(MPI_Comm communicator) {
  int* largest = nullptr;
  int known = 0;
  LOCKSTEP_MPI(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&largest), &known));
  constexpr int least_that_mpi_promises = 32767;
  const int bound = known != 0 ? *largest : least_that_mpi_promises;
  return static_cast<unsigned>(std::bit_width(static_cast<unsigned>(bound) + 1U)) - 1U;
}

std::uint64_t lowest(unsigned bits, std::uint64_t value) { return value & ((std::uint64_t{1} << bits) - 1U); }

}  // namespace

MessageMedium::TagBits::TagBits(MPI_Comm communicator, int lanes)
    : lane_of_complaints(lanes),
      lane_of_two(lanes + 1),
      lane(static_cast<unsigned>(std::bit_width(static_cast<unsigned>(lane_of_two + 1)))) {
  const unsigned all = bits_of_a_tag(communicator);
  const unsigned rest = all - std::min(all, lane);
  number = rest / 2;
  signature = rest - number;
}

int MessageMedium::TagBits::pack(const MessageTag& tag) const {
  const std::uint64_t upper = lowest(signature, tag.signature.hash) << number | lowest(number, tag.number);
  const int on_lane = tag.lane < 0 ? lane_of_two + MessageTag::of_two - tag.lane : tag.lane;
  return static_cast<int>(upper << lane | static_cast<unsigned>(on_lane));
}

MessageTag MessageMedium::TagBits::unpack(int tag, int from) const {
  const auto whole = static_cast<std::uint64_t>(tag);
  const auto on_lane = static_cast<int>(lowest(lane, whole));
  return {.lane = on_lane,
          .number = lowest(number, whole >> lane),
          .signature = {.hash = whole >> (lane + number)},
          .from = on_lane >= lane_of_two ? from : MessageTag::everybody};
}

MessageMedium::MessageMedium(const MpiGroup& group, int lanes)
    : group_(group.dup()),
      communicator_(communicator(group_)),
      bits_(communicator_, std::max(lanes, 1)),
      complaint_tag_(bits_.pack({.lane = bits_.lane_of_complaints})) {
  // How many messages are under way at a time depends on the peers' pace; growing for it in mid-training would
  // allocate.
  constexpr std::size_t plenty = 256;
  slots_.reserve(plenty);
  free_.reserve(plenty);
  early_.reserve(plenty);
}

Medium::Ticket MessageMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  const Ticket ticket = free_slot(-1);
  LOCKSTEP_MPI(
      MPI_Isend(data, message_size(bytes), MPI_BYTE, peer.value, bits_.pack(tag), communicator_, &at(ticket).request),
      .peers = {peer.value}, .bytes = bytes.value);
  return ticket;
}

Medium::Ticket MessageMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  const int size = message_size(bytes);
  const Ticket ticket = free_slot(size);
  MPI_Request* request = &at(ticket).request;
  const int packed = bits_.pack(tag);
  const auto early = std::find_if(early_.begin(), early_.end(),
                                  [&](const Early& e) { return e.peer == peer.value && e.tag == packed; });
  if (early == early_.end()) {
    LOCKSTEP_MPI(MPI_Irecv(data, size, MPI_BYTE, peer.value, packed, communicator_, request), .peers = {peer.value},
                 .bytes = bytes.value);
  } else {
    LOCKSTEP_MPI(MPI_Imrecv(data, size, MPI_BYTE, &early->message, request), .peers = {peer.value},
                 .bytes = bytes.value);
    early_.erase(early);
  }
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
  if (arrived != slot.expected_bytes) {  // two signatures that are the same as far as they fit into a tag
    throw Error(ErrorCode::mismatch,
                "a message of " + std::to_string(arrived) + " bytes arrived where " +
                    std::to_string(slot.expected_bytes) + " were expected: do all ranks pass the same count?",
                {.peers = {status.MPI_SOURCE}});
  }
  free_.push_back(ticket.slot);
  return true;
}

/// Two ranks that call the same give the same operation the same number, so a message of this operation's number and
/// of another signature is proof; nothing is concluded from how long anything takes. Of the number a tag holds some
/// bits (13 of Open MPI's 31): what is left of doubt is a peer that is ahead by exactly as many operations as they can
/// count, times a whole number, and has got there without this rank.
///
/// Messages that are only early, for an operation to come or a step that this rank has not reached, are taken out of
/// MPI's queue like the others, because they would hide what came after them: a probe returns the oldest. Their
/// receives find them in `early_`, before those that are still to be matched, so the order among equal tags remains.
void MessageMedium::look(const MessageTag& ours) {
  take_early_messages();
  const MessageTag expected = bits_.unpack(bits_.pack(ours), ours.from);
  for (Early& early : early_) {
    if (early.tag == complaint_tag_) heed(early, ours.signature);
    if (!bits_.unpack(early.tag, early.peer).contradicts(expected)) continue;
    complain({group_.rank().value, early.peer, ours.signature});
    throw Error(ErrorCode::mismatch,
                "rank " + std::to_string(early.peer) + " calls something else where this rank calls " +
                    describe(ours.signature) + ": another operation, count, dtype, operator, root or label",
                {.peers = {early.peer}});
  }
}

/// Any call will do that makes MPI look round; this one changes nothing.
void MessageMedium::help_others() {
  int found = 0;
  LOCKSTEP_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, MPI_STATUS_IGNORE));
}

void MessageMedium::take_early_messages() {
  for (int found = 1; found != 0;) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    LOCKSTEP_MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, &message, &status));
    if (found != 0) early_.push_back({status.MPI_SOURCE, status.MPI_TAG, message});
  }
}

void MessageMedium::heed(Early& complaint, const Signature& ours) {
  Complaint text;
  LOCKSTEP_MPI(MPI_Mrecv(&text, sizeof text, MPI_BYTE, &complaint.message, MPI_STATUS_IGNORE));
  throw mismatch_after(text, ours);
}

/// Nobody waits for these to be sent: the communicator is of no more use.
void MessageMedium::complain(const Complaint& complaint) {
  complaint_ = complaint;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == complaint.by) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    LOCKSTEP_MPI(MPI_Isend(&complaint_, sizeof complaint_, MPI_BYTE, rank, complaint_tag_, communicator_, &request));
    LOCKSTEP_MPI(MPI_Request_free(&request));
  }
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
