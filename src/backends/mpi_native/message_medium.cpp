// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_native/message_medium.hpp"

#include <algorithm>
#include <climits>

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

bool is_truncation(int result) {
  int kind = MPI_SUCCESS;
  return result != MPI_SUCCESS && MPI_Error_class(result, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE;
}

}  // namespace

MessageMedium::MessageMedium(const RankSet& group, int channels)
    : group_(group.dup()), communicator_(communicator(group_)), bits_(bits_of_a_tag(communicator_), channels) {
  // The number of messages in flight depends on the peers' pace; growing these vectors during training would allocate.
  constexpr std::size_t plenty = 256;
  messages_.reserve(plenty);
  free_.reserve(plenty);
  unseen_.reserve(plenty);
}

Medium::Ticket MessageMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  const Ticket ticket = idle_message(-1);
  LOCKSTEP_MPI(
      MPI_Isend(data, message_size(bytes), MPI_BYTE, peer.value, bits_.pack(tag), communicator_, &at(ticket).request),
      .peers = {peer.value}, .bytes = bytes.value);
  return ticket;
}

/// Posts a receive, or defers it for an all_to_all_v. A signature does not include the counts of an all_to_all_v, and
/// Open MPI 4 writes a long message beyond the end of a short buffer before it reports an error. So the size of these
/// messages is probed first.
Medium::Ticket MessageMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  const Ticket ticket = idle_message(message_size(bytes));
  Message& message = at(ticket);
  message.peer = peer.value;
  message.tag = bits_.pack(tag);
  message.into = data;
  if (kind_of(tag.signature) == CollectiveKind::all_to_all_v) {
    message.unseen = true;
    unseen_.push_back(ticket.index);
  } else {
    post(message);
  }
  return ticket;
}

void MessageMedium::post(Message& message) {
  LOCKSTEP_MPI(MPI_Irecv(message.into, message.expected_bytes, MPI_BYTE, message.peer, message.tag, communicator_,
                         &message.request),
               .peers = {message.peer}, .bytes = message.expected_bytes);
}

/// Returns whether the receive has been posted, and posts a deferred one if its message has arrived. Among receives
/// with the same tag from the same peer, the first one gets the first message.
bool MessageMedium::is_there(Ticket ticket) {
  Message& message = at(ticket);
  if (!message.unseen) return true;
  const auto first = std::find_if(unseen_.begin(), unseen_.end(), [&](int index) {
    const Message& other = at({index});
    return other.peer == message.peer && other.tag == message.tag;
  });
  if (*first != ticket.index) return false;
  int found = 0;
  MPI_Status status;
  LOCKSTEP_MPI(MPI_Iprobe(message.peer, message.tag, communicator_, &found, &status), .peers = {message.peer});
  if (found == 0) return false;
  int bytes = 0;
  LOCKSTEP_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
  if (bytes != message.expected_bytes)
    throw other_size(message.peer, std::to_string(bytes) + " where ", {message.expected_bytes});
  unseen_.erase(first);
  message.unseen = false;
  post(message);
  return true;
}

bool MessageMedium::test(Ticket ticket) {
  if (!is_there(ticket)) return false;
  Message& message = at(ticket);
  int complete = 0;
  MPI_Status status;
  const int result = MPI_Test(&message.request, &complete, &status);
  if (is_truncation(result)) throw other_size(message.peer, "more than ", {message.expected_bytes});
  LOCKSTEP_MPI(result);
  if (complete == 0) return false;
  int arrived = message.expected_bytes;
  if (message.expected_bytes >= 0) LOCKSTEP_MPI(MPI_Get_count(&status, MPI_BYTE, &arrived));
  if (arrived != message.expected_bytes)
    throw other_size(message.peer, std::to_string(arrived) + " where ", {message.expected_bytes});
  free_.push_back(ticket.index);
  return true;
}

/// Makes MPI advance its messages with a call that changes nothing. It takes less than a microsecond if there is
/// nothing to do, and longer if it copies a piece of a message, because MPI libraries move long messages piece by
/// piece.
bool MessageMedium::help_others() {
  constexpr std::chrono::microseconds of_a_piece{5};
  const auto begin = std::chrono::steady_clock::now();
  int found = 0;
  LOCKSTEP_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, MPI_STATUS_IGNORE));
  return std::chrono::steady_clock::now() - begin > of_a_piece;
}

void MessageMedium::close() { group_.close(); }

Medium::Ticket MessageMedium::idle_message(int expected_bytes) {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(messages_.size()));
    messages_.emplace_back();
    free_.reserve(messages_.size());
    unseen_.reserve(messages_.size());
  }
  const int index = free_.back();
  free_.pop_back();
  Message& message = messages_[static_cast<std::size_t>(index)];
  message = {};
  message.expected_bytes = expected_bytes;
  return {index};
}

}  // namespace lockstep::backends
