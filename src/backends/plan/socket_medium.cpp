// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/socket_medium.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace lockstep::backends {
namespace {

using Clock = std::chrono::steady_clock;

// Tests in a row that find nothing, each a system call: after so many, this rank yields with each of them, because the
// sender of a small message that does not come within some microseconds may need its processor; and it helps the other
// medium, and again at intervals.
constexpr int tests_before_yield = 32;
constexpr int tests_before_help = 512;
constexpr int tests_between_helps = 64;

// No message is as long; what says so is none.
constexpr std::uint64_t impossible = std::uint64_t{1} << 47;

// Memory of early messages is used again up to this size.
constexpr std::size_t most_kept = 1024 * 1024;

constexpr std::size_t plenty = 64;

std::uint32_t crc_of(const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const Bytef*>(data), bytes));
}

/// By fields, because the bytes between them have no values.
std::uint32_t checksum_of_header(const MessageTag& tag, std::uint64_t bytes, std::uint32_t data_checksum) {
  const std::array<std::uint64_t, 6> fields = {static_cast<std::uint64_t>(tag.channel),
                                               tag.number,
                                               tag.signature.call,
                                               tag.signature.hash,
                                               bytes,
                                               data_checksum};
  return crc_of(fields.data(), sizeof fields);
}

// Tickets of the two media share the numbers: those of connections are odd. The first of them is complete.
constexpr Medium::Ticket complete{1};
Medium::Ticket ticket_of(int flight) { return {2 * flight + 1}; }
bool is_of_socket(Medium::Ticket ticket) { return ticket.index % 2 == 1; }

Medium::Ticket doubled(Medium::Ticket ticket) { return {2 * ticket.index}; }

}  // namespace

SocketMedium::SocketMedium(std::unique_ptr<Medium> messages, std::unique_ptr<Connector> connector,
                           std::vector<Connection> connections, Options options)
    : messages_(std::move(messages)),
      connector_(std::move(connector)),
      options_(std::move(options)),
      link_of_rank_(options_.hosts.size(), -1) {
  const auto add_link = [this](int rank) {
    int& link = link_of_rank_[static_cast<std::size_t>(rank)];
    if (link >= 0) return;
    link = static_cast<int>(links_.size());
    for (int lane = 0; lane < options_.lanes; ++lane) links_.push_back({.rank = rank, .lane = lane, .socket = {}});
  };
  for (Connection& connection : connections) {
    add_link(connection.rank);
    attach(std::move(connection));
  }
  for (const int rank : options_.ranks) add_link(rank);
  if (!messages_) add_link(options_.me.value);
  flights_.reserve(plenty);
  flights_.emplace_back();  // its ticket is `complete`
  free_.reserve(plenty);
  spare_.reserve(plenty);
}

void SocketMedium::attach(Connection connection) {
  constexpr std::size_t frames_at_a_time = 4;
  Link& link = links_[static_cast<std::size_t>(link_to({connection.rank}, connection.lane))];
  link.socket = std::move(connection.socket);
  link.arrived.resize(frames_at_a_time * (sizeof(Header) + small_frame));
  link.unsent.reserve(plenty);
  link.awaited.reserve(plenty);
  link.early.reserve(plenty);
}

void SocketMedium::connect_more() {
  for (Connection& connection : connector_->advance()) attach(std::move(connection));
}

/// Begins to connect to another rank, or goes on, unless that is done. @return whether there is a connection
bool SocketMedium::connect(Link& link) {
  if (link.socket.open()) return true;
  if (connector_ == nullptr || link.rank == options_.me.value) return false;
  connector_->want(link.rank, link.lane);
  connect_more();
  if (link.socket.open()) return true;
  if (!link.end) {
    link.failure = connector_->failure_of(link.rank, link.lane);
    if (!link.failure.empty()) link.end = Clock::now();
  }
  return false;
}

bool SocketMedium::is_under_way() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const Link& link) { return !link.unsent.empty() || !link.awaited.empty() || link.incoming; });
}

Medium::Ticket SocketMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  const int to = link_to(peer, tag.channel);
  if (to < 0) {
    ++messages_elsewhere_;
    return doubled(messages_->send(peer, tag, data, bytes));
  }
  Link& link = links_[static_cast<std::size_t>(to)];
  Header header{tag, static_cast<std::uint64_t>(bytes.value)};
  const auto* const from = static_cast<const std::byte*>(data);
  if (options_.checksum) {
    header.data_checksum = crc_of(data, header.bytes);
    header.header_checksum = checksum_of_header(tag, header.bytes, header.data_checksum);
  }
  if (link.rank == options_.me.value) {
    deliver(link, header, from);
    return complete;
  }
  if (link.unsent.empty() && connect(link)) {
    link.sent_of_first = send_some(link, header, from, 0);
    if (link.sent_of_first == sizeof header + header.bytes) return complete;
  }
  const int index = idle_flight();
  at(index) = {.header = header, .link = to, .is_send = true, .from = from};
  link.unsent.push_back(index);
  return ticket_of(index);
}

Medium::Ticket SocketMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  const int from = link_to(peer, tag.channel);
  if (from < 0) {
    ++messages_elsewhere_;
    return doubled(messages_->receive(peer, tag, data, bytes));
  }
  Link& link = links_[static_cast<std::size_t>(from)];
  Flight flight{
      .header = {tag, static_cast<std::uint64_t>(bytes.value)}, .link = from, .into = static_cast<std::byte*>(data)};
  const auto early =
      std::find_if(link.early.begin(), link.early.end(), [&](const Early& e) { return e.header.tag == tag; });
  if (early != link.early.end()) {
    check_size(flight, early->header, link.rank);
    std::copy_n(early->data.begin(), flight.header.bytes, flight.into);
    keep(std::move(*early));
    link.early.erase(early);
    return complete;
  }
  const int index = idle_flight();
  at(index) = flight;
  link.awaited.push_back(index);
  return ticket_of(index);
}

bool SocketMedium::test(Ticket ticket) {
  if (!is_of_socket(ticket)) {
    const bool is_complete = messages_->test({ticket.index / 2});
    if (is_complete) --messages_elsewhere_;
    return is_complete;
  }
  if (ticket.index == complete.index) return true;
  const int index = ticket.index / 2;
  if (!at(index).is_done) {
    Link& link = links_[static_cast<std::size_t>(at(index).link)];
    if (connect(link)) at(index).is_send ? flush(link) : read(link);
    if (!at(index).is_done) {
      note_wait(link);
      return false;
    }
  }
  vain_tests_ = 0;
  next_help_ = tests_before_help;
  free_.push_back(index);
  return true;
}

bool SocketMedium::sleep(std::chrono::nanoseconds at_most) {
  if (messages_elsewhere_ > 0) return false;
  constexpr std::chrono::milliseconds moment{1};
  if (messages_) at_most = std::min<std::chrono::nanoseconds>(at_most, moment);  // the program's own need help
  awaited_sockets_.clear();
  for (const Link& link : links_) {
    const bool receives = !link.awaited.empty() || link.incoming;
    const bool sends = !link.unsent.empty();
    if (!receives && !sends) continue;
    if (link.rank == options_.me.value || link.end) return false;
    const int events = (receives ? POLLIN : 0) | (sends ? POLLOUT : 0);
    if (link.socket.open()) {
      awaited_sockets_.push_back({link.socket.get(), static_cast<short>(events), 0});
    } else {
      at_most = std::min<std::chrono::nanoseconds>(at_most, moment);  // a call may be due
    }
  }
  if (connector_) connector_->add_to(awaited_sockets_);
  if (awaited_sockets_.empty()) return false;
  const timespec time{.tv_sec = at_most.count() / std::nano::den, .tv_nsec = at_most.count() % std::nano::den};
  (void)ppoll(awaited_sockets_.data(), awaited_sockets_.size(), &time, nullptr);
  if (connector_) connect_more();
  return true;
}

void SocketMedium::close() {
  connector_.reset();
  links_.clear();
  std::fill(link_of_rank_.begin(), link_of_rank_.end(), -1);
  if (messages_) messages_->close();
}

/// Sends what the socket takes of a frame. @param from  bytes of the frame that have been sent before
/// @return the number of bytes of the frame that have been sent since its beginning
std::size_t SocketMedium::send_some(Link& link, const Header& header, const std::byte* data, std::size_t from) {
  const std::size_t of_header = std::min(from, sizeof header);
  const std::size_t of_data = from - of_header;
  std::array<iovec, 2> parts = {
      {{const_cast<char*>(reinterpret_cast<const char*>(&header)) + of_header, sizeof header - of_header},
       {const_cast<std::byte*>(data) + of_data, header.bytes - of_data}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = header.bytes > of_data ? 2 : 1;
  const ssize_t count = sendmsg(link.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) return from + static_cast<std::size_t>(count);
  if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && !link.end) link.end = Clock::now();
  return from;
}

/// Sends what is left of earlier messages.
void SocketMedium::flush(Link& link) {
  std::size_t sent_messages = 0;
  for (const int index : link.unsent) {
    Flight& flight = at(index);
    link.sent_of_first = send_some(link, flight.header, flight.from, link.sent_of_first);
    if (link.sent_of_first < sizeof(Header) + flight.header.bytes) break;
    link.sent_of_first = 0;
    flight.is_done = true;
    ++sent_messages;
  }
  link.unsent.erase(link.unsent.begin(), link.unsent.begin() + static_cast<std::ptrdiff_t>(sent_messages));
}

/// Receives what has arrived, and delivers whole frames.
void SocketMedium::read(Link& link) {
  if (link.incoming) return read_incoming(link);
  std::size_t count = 0;
  if (!read_into(link, link.arrived.data() + link.size, link.arrived.size() - link.size, count)) return;
  link.size += count;
  read_frames(link);
  if (link.incoming) read_incoming(link);
}

/// @return whether something has arrived
bool SocketMedium::read_into(Link& link, std::byte* into, std::size_t most, std::size_t& count) {
  const ssize_t received = recv(link.socket.get(), into, most, MSG_DONTWAIT);
  const bool is_over = received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
  if (is_over && !link.end) link.end = Clock::now();
  count = received > 0 ? static_cast<std::size_t>(received) : 0;
  return received > 0;
}

/// Receives more of a message where it belongs.
void SocketMedium::read_incoming(Link& link) {
  Incoming& incoming = *link.incoming;
  std::byte* const into = incoming.flight >= 0 ? at(incoming.flight).into : incoming.early.data.data();
  while (incoming.received < incoming.header.bytes) {
    std::size_t count = 0;
    if (!read_into(link, into + incoming.received, incoming.header.bytes - incoming.received, count)) return;
    incoming.received += count;
  }
  check_data(incoming.header, into, link.rank);
  if (incoming.flight >= 0) {
    at(incoming.flight).is_done = true;
  } else if (const int awaited = take_awaited(link, incoming.header); awaited >= 0) {  // since it began to arrive
    check_size(at(awaited), incoming.header, link.rank);
    std::copy_n(incoming.early.data.begin(), incoming.header.bytes, at(awaited).into);
    at(awaited).is_done = true;
    keep(std::move(incoming.early));
  } else {
    link.early.push_back(std::move(incoming.early));
  }
  link.incoming.reset();
}

/// Delivers the frames that have arrived. The rest of one that is not there as a whole is received where it belongs.
void SocketMedium::read_frames(Link& link) {
  std::size_t done = 0;
  Header header;
  while (!link.incoming && link.size - done >= sizeof header) {
    std::memcpy(&header, link.arrived.data() + done, sizeof header);
    check_header(header, link.rank);
    const std::size_t there = std::min<std::uint64_t>(link.size - done - sizeof header, header.bytes);
    if (there < header.bytes && header.bytes <= small_frame) break;  // the buffer has room for it
    const std::byte* const data = link.arrived.data() + done + sizeof header;
    there == header.bytes ? deliver(link, header, data) : begin_incoming(link, header, data, there);
    done += sizeof header + there;
  }
  link.size -= done;
  if (done > 0 && link.size > 0) std::memmove(link.arrived.data(), link.arrived.data() + done, link.size);
}

/// Finds the first receive that awaits a message. @return −1 if there is none
int SocketMedium::take_awaited(Link& link, const Header& header) {
  const auto receive = std::find_if(link.awaited.begin(), link.awaited.end(),
                                    [&](int index) { return at(index).header.tag == header.tag; });
  if (receive == link.awaited.end()) return -1;
  const int index = *receive;
  link.awaited.erase(receive);
  return index;
}

/// Begins to receive a message of which these bytes have arrived.
void SocketMedium::begin_incoming(Link& link, const Header& header, const std::byte* data, std::size_t bytes) {
  Incoming incoming{.header = header, .received = bytes, .flight = take_awaited(link, header), .early = {}};
  if (incoming.flight >= 0) {
    check_size(at(incoming.flight), header, link.rank);
    std::copy_n(data, bytes, at(incoming.flight).into);
  } else {
    incoming.early = spare_for(header);
    std::copy_n(data, bytes, incoming.early.data.begin());
  }
  link.incoming = std::move(incoming);
}

/// Gives a whole message to the first receive that awaits it, or puts it aside.
void SocketMedium::deliver(Link& link, const Header& header, const std::byte* data) {
  begin_incoming(link, header, data, header.bytes);
  read_incoming(link);
}

SocketMedium::Early SocketMedium::spare_for(const Header& header) {
  Early early;
  if (!spare_.empty()) {
    early = std::move(spare_.back());
    spare_.pop_back();
  }
  early.header = header;
  early.data.resize(header.bytes);
  return early;
}

/// @throws Error{mismatch} if the sizes differ, as when the signatures of different calls have the same hash
void SocketMedium::check_size(const Flight& flight, const Header& header, int rank) const {
  if (header.bytes != flight.header.bytes)
    throw other_size(rank, std::to_string(header.bytes) + " where ", {static_cast<std::int64_t>(flight.header.bytes)});
}

/// @throws Error{transport} if it has changed, or is none
void SocketMedium::check_header(const Header& header, int rank) const {
  if (options_.checksum && header.header_checksum != checksum_of_header(header.tag, header.bytes, header.data_checksum))
    throw changed(rank, "the header of a message");
  if (header.bytes < impossible) return;
  throw Error(ErrorCode::transport,
              "rank " + std::to_string(rank) + " sent something else than a message over its connection",
              {.peers = {rank}});
}

/// @throws Error{transport} if they have changed
void SocketMedium::check_data(const Header& header, const std::byte* data, int rank) const {
  if (options_.checksum && crc_of(data, header.bytes) != header.data_checksum)
    throw changed(rank, "a message of " + std::to_string(header.bytes) + " bytes");
}

Error SocketMedium::changed(int rank, const std::string& what) const {
  return Error(ErrorCode::transport,
               what + " from rank " + std::to_string(rank) + " on " + options_.hosts[static_cast<std::size_t>(rank)] +
                   " has changed on its way: the checksum differs; test the network between the hosts",
               {.peers = {rank}});
}

void SocketMedium::keep(Early early) {
  if (early.data.capacity() <= most_kept) spare_.push_back(std::move(early));
}

/// Yields, and helps the other medium and ranks that want a connection, after some time.
/// @throws Error{transport} if the connection has ended a moment ago
void SocketMedium::note_wait(const Link& link) {
  if (++vain_tests_ > next_help_) {
    if (connector_) connect_more();
    next_help_ = vain_tests_ + (help_others() ? 0 : tests_between_helps);
  }
  if (vain_tests_ > tests_before_yield) std::this_thread::yield();
  constexpr std::chrono::milliseconds moment{30};
  if (!link.end || Clock::now() - *link.end < moment) return;
  const std::string who =
      "rank " + std::to_string(link.rank) + " on " + options_.hosts[static_cast<std::size_t>(link.rank)];
  throw Error(ErrorCode::transport,
              link.failure.empty() ? who + " has ended: its connection is closed"
                                   : who + " has ended or cannot be reached: " + link.failure,
              {.peers = {link.rank}});
}

int SocketMedium::idle_flight() {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(flights_.size()));
    flights_.emplace_back();
    free_.reserve(flights_.size());
  }
  const int index = free_.back();
  free_.pop_back();
  return index;
}

}  // namespace lockstep::backends
