// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/plan/medium.hpp"
#include "lockstep/base/types.hpp"
#include "platform/ranks/connector.hpp"

namespace lockstep::backends {

/// Messages over TCP connections, of all sizes, between ranks that have one or can get one. Another medium, if there is
/// one, carries the messages between all others. A connection that is not there is made when two ranks first need it:
/// the first message between them then waits until both are in an operation.
///
/// A message is one frame: its tag, its size and its bytes. A frame that is not awaited yet is put aside. Frames are
/// read only from ranks from which a message is awaited; a rank that is too far ahead is held back by TCP. Small frames
/// are received together, and copied. Of a large one, only what arrives together with its beginning is copied; the rest
/// is received where it belongs.
///
/// With checksums, each frame has two (CRC-32), one of its header and one of its data. A receive of a message of which
/// bits have changed fails.
///
/// A connection that ends says that nothing more comes from that rank, but not why. A receive from it fails a moment
/// later, so that a rank that has given a reason, over the control channel, is reported with that reason.
class SocketMedium : public Medium {
 public:
  /// A frame of at most so many bytes is received as a whole, together with others, and then copied.
  static constexpr std::size_t small_frame = 16 * 1024;

  struct Options {
    Rank me;
    std::vector<std::string> hosts;  ///< of all ranks
    std::vector<int> ranks = {};     ///< those to which connections are made when they are needed
    bool checksum = false;           ///< whether frames have checksums; the same on all ranks
    int lanes = 1;  ///< connections for each of these ranks, among which channels are dealt out; the same on all ranks
  };
  /// @param messages     the medium of all other messages; null: there are none, and what this rank sends to itself is
  ///         copied
  /// @param connector    makes the connections that are needed later; null: none are
  /// @param connections  those that are there
  SocketMedium(std::unique_ptr<Medium> messages, std::unique_ptr<Connector> connector,
               std::vector<Connection> connections, Options options);

  Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  [[nodiscard]] bool is_shared() const override { return messages_ ? messages_->is_shared() : is_under_way(); }
  bool help_others() override { return messages_ && messages_->help_others(); }
  /// Waits for the connections, unless messages of the other medium are under way.
  bool sleep(std::chrono::nanoseconds at_most) override;
  void close() override;

 private:
  /// The beginning of each message on a connection.
  struct Header {
    MessageTag tag;
    std::uint64_t bytes = 0;
    std::uint32_t data_checksum = 0;
    std::uint32_t header_checksum = 0;  // of what is above
  };
  struct Flight {
    Header header;
    int link = 0;
    bool is_send = false;
    const std::byte* from = nullptr;
    std::byte* into = nullptr;
    bool is_done = false;
  };
  /// A message that has arrived before its receive.
  struct Early {
    Header header;
    std::vector<std::byte> data;
  };
  /// A message of which a part has arrived.
  struct Incoming {
    Header header;
    std::uint64_t received = 0;
    int flight = -1;  // −1: it is not awaited yet, and goes to `early`
    Early early;
  };
  struct Link {
    int rank;
    int lane = 0;
    ConnectedSocket socket;            // none to this rank itself, and before it is connected
    std::vector<int> unsent;           // flights in their order
    std::size_t sent_of_first = 0;     // bytes of the frame of the first of them
    std::vector<int> awaited;          // flights in their order
    std::vector<Early> early;          // in the order of their arrival
    std::vector<std::byte> arrived;    // bytes that have been received and do not form a whole frame yet
    std::size_t size = 0;              // number of these
    std::optional<Incoming> incoming;  // then nothing is in `arrived`
    std::optional<std::chrono::steady_clock::time_point> end;  // when the connection was found to have ended, or
    std::string failure;                                       // that it cannot be made, with the reason
  };

  /// The link of a channel to a rank; −1 if there is none.
  [[nodiscard]] int link_to(Rank peer, int channel) const {
    const int first = link_of_rank_[static_cast<std::size_t>(peer.value)];
    return first < 0 || channel < 0 ? first : first + channel % options_.lanes;
  }
  [[nodiscard]] bool is_under_way() const;
  void attach(Connection connection);
  void connect_more();
  [[nodiscard]] bool connect(Link& link);
  [[nodiscard]] std::size_t send_some(Link& link, const Header& header, const std::byte* data, std::size_t from);
  void flush(Link& link);
  void read(Link& link);
  [[nodiscard]] bool read_into(Link& link, std::byte* into, std::size_t most, std::size_t& count);
  void read_incoming(Link& link);
  void read_frames(Link& link);
  [[nodiscard]] int take_awaited(Link& link, const Header& header);
  void begin_incoming(Link& link, const Header& header, const std::byte* data, std::size_t bytes);
  void deliver(Link& link, const Header& header, const std::byte* data);
  [[nodiscard]] Early spare_for(const Header& header);
  void check_size(const Flight& flight, const Header& header, int rank) const;
  void check_header(const Header& header, int rank) const;
  void check_data(const Header& header, const std::byte* data, int rank) const;
  [[nodiscard]] Error changed(int rank, const std::string& what) const;
  void keep(Early early);
  void note_wait(const Link& link);
  int idle_flight();
  [[nodiscard]] Flight& at(int index) { return flights_[static_cast<std::size_t>(index)]; }

  std::unique_ptr<Medium> messages_;
  std::unique_ptr<Connector> connector_;
  Options options_;
  std::vector<int> link_of_rank_;  // the first of its lanes; −1 where there is none
  std::vector<Link> links_;
  std::vector<Flight> flights_;
  std::vector<int> free_;
  std::vector<Early> spare_;  // to be used again
  std::vector<pollfd> awaited_sockets_;
  std::int64_t messages_elsewhere_ = 0;  // tickets of the other medium
  std::int64_t vain_tests_ = 0;          // since the last message
  std::int64_t next_help_ = 0;           // the number of these after which the other medium is helped
};

}  // namespace lockstep::backends
