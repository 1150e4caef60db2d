// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/plan/medium.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/types.hpp"
#include "platform/mpi/connector.hpp"

namespace lockstep::backends {

/// Messages between ranks that have a TCP connection, up to a size; all others go by another medium. Both ranks know
/// the size, so both choose the same way; an all_to_all_v, in which they may expect different sizes, never goes by a
/// connection.
///
/// A message is one frame: its tag, its size and its bytes. A frame that is not awaited yet is put aside. Frames are
/// read only from ranks from which a message is awaited; a rank that is too far ahead is held back by TCP.
///
/// A connection that ends says that nothing more comes from that rank, but not why. A receive from it fails a moment
/// later, so that a rank that has given a reason, over the control channel, is reported with that reason.
class SocketMedium : public Medium {
 public:
  /// @param messages     the medium of all other messages
  /// @param connections  to some of the ranks, which have one to this rank, too
  /// @param hosts        the hosts of all ranks
  /// @param limit        largest message by a connection; the same on all ranks
  SocketMedium(std::unique_ptr<Medium> messages, std::vector<Connection> connections, std::vector<std::string> hosts,
               Bytes limit);

  Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  [[nodiscard]] bool is_shared() const override { return messages_->is_shared(); }
  bool help_others() override { return messages_->help_others(); }
  void close() override;

 private:
  /// The beginning of each message on a connection.
  struct Header {
    MessageTag tag;
    std::uint64_t bytes = 0;
  };
  struct Flight {
    Header header;
    int link = 0;
    const std::byte* from = nullptr;  // null for a receive
    std::byte* into = nullptr;
    bool is_done = false;
  };
  /// A message that has arrived before its receive.
  struct Early {
    Header header;
    std::vector<std::byte> data;
  };
  struct Link {
    int rank;
    Descriptor socket;
    std::vector<int> unsent;         // flights in their order
    std::size_t sent_of_first = 0;   // bytes of the frame of the first of them
    std::vector<int> awaited;        // flights in their order
    std::vector<Early> early;        // in the order of their arrival
    std::vector<std::byte> arrived;  // bytes that have been received and do not form a whole frame yet
    std::size_t size = 0;            // number of these
    std::optional<std::chrono::steady_clock::time_point> end;  // when the connection was found to have ended
  };

  [[nodiscard]] int link_for(Rank peer, const MessageTag& tag, Bytes bytes) const;
  [[nodiscard]] std::size_t put_frame(const Header& header, const void* data);
  [[nodiscard]] std::size_t send_some(Link& link, std::size_t frame, std::size_t from);
  void flush(Link& link);
  void read(Link& link);
  void deliver(Link& link, const Header& header, const std::byte* data);
  void fill(Flight& flight, const Header& header, const std::byte* data, int rank);
  void note_wait(const Link& link);
  int idle_flight();
  [[nodiscard]] Flight& at(int index) { return flights_[static_cast<std::size_t>(index)]; }

  std::unique_ptr<Medium> messages_;
  std::vector<std::string> hosts_;
  Bytes limit_;
  std::vector<int> link_of_rank_;  // −1 where there is none
  std::vector<Link> links_;
  std::vector<std::byte> frame_;  // the frame that is being sent
  std::vector<Flight> flights_;
  std::vector<int> free_;
  std::vector<Early> spare_;     // to be used again
  std::int64_t vain_tests_ = 0;  // since the last message
  std::int64_t next_help_ = 0;   // the number of these after which the other medium is helped
};

/// The ranks with which a rank has connections, if lockstep uses any: those of other hosts, if these are few; otherwise
/// those with which it exchanges small messages in recursive doubling, with and without a hierarchy, and in barriers
/// among powers of two. It is a partner of each of its partners.
/// @param same_host  whether ranks of the same host count as if they were elsewhere
std::vector<int> socket_partners(const ClusterShape& shape, Rank me, bool same_host = false);

}  // namespace lockstep::backends
