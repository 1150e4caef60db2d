// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/socket_medium.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
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

// Tickets of the two media share the numbers: those of connections are odd. The first of them is complete.
constexpr Medium::Ticket complete{1};
Medium::Ticket ticket_of(int flight) { return {2 * flight + 1}; }
bool is_of_socket(Medium::Ticket ticket) { return ticket.index % 2 == 1; }

Medium::Ticket doubled(Medium::Ticket ticket) { return {2 * ticket.index}; }

}  // namespace

SocketMedium::SocketMedium(std::unique_ptr<Medium> messages, std::vector<Connection> connections,
                           std::vector<std::string> hosts, Bytes limit)
    : messages_(std::move(messages)), hosts_(std::move(hosts)), limit_(limit), link_of_rank_(hosts_.size(), -1) {
  constexpr std::size_t plenty = 64;
  constexpr std::size_t frames_at_a_time = 4;
  frame_.resize(sizeof(Header) + static_cast<std::size_t>(limit.value));
  for (Connection& connection : connections) {
    link_of_rank_[static_cast<std::size_t>(connection.rank)] = static_cast<int>(links_.size());
    Link& link = links_.emplace_back(Link{.rank = connection.rank, .socket = std::move(connection.socket)});
    link.arrived.resize(frames_at_a_time * frame_.size());
    link.unsent.reserve(plenty);
    link.awaited.reserve(plenty);
    link.early.reserve(plenty);
  }
  flights_.reserve(plenty);
  flights_.emplace_back();  // its ticket is `complete`
  free_.reserve(plenty);
  spare_.reserve(plenty);
}

int SocketMedium::link_for(Rank peer, const MessageTag& tag, Bytes bytes) const {
  if (bytes > limit_ || kind_of(tag.signature) == CollectiveKind::all_to_all_v) return -1;
  return link_of_rank_[static_cast<std::size_t>(peer.value)];
}

Medium::Ticket SocketMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  const int to = link_for(peer, tag, bytes);
  if (to < 0) return doubled(messages_->send(peer, tag, data, bytes));
  Link& link = links_[static_cast<std::size_t>(to)];
  const Header header{tag, static_cast<std::uint64_t>(bytes.value)};
  std::size_t sent = 0;
  if (link.unsent.empty()) {
    const std::size_t size = put_frame(header, data);
    sent = send_some(link, size, 0);
    if (sent == size) return complete;
    link.sent_of_first = sent;
  }
  const int index = idle_flight();
  at(index) = {.header = header, .link = to, .from = static_cast<const std::byte*>(data)};
  link.unsent.push_back(index);
  return ticket_of(index);
}

Medium::Ticket SocketMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  const int from = link_for(peer, tag, bytes);
  if (from < 0) return doubled(messages_->receive(peer, tag, data, bytes));
  Link& link = links_[static_cast<std::size_t>(from)];
  Flight flight{
      .header = {tag, static_cast<std::uint64_t>(bytes.value)}, .link = from, .into = static_cast<std::byte*>(data)};
  const auto early =
      std::find_if(link.early.begin(), link.early.end(), [&](const Early& e) { return e.header.tag == tag; });
  if (early != link.early.end()) {
    fill(flight, early->header, early->data.data(), link.rank);
    spare_.push_back(std::move(*early));
    link.early.erase(early);
    return complete;
  }
  const int index = idle_flight();
  at(index) = flight;
  link.awaited.push_back(index);
  return ticket_of(index);
}

bool SocketMedium::test(Ticket ticket) {
  if (!is_of_socket(ticket)) return messages_->test({ticket.index / 2});
  if (ticket.index == complete.index) return true;
  const int index = ticket.index / 2;
  if (!at(index).is_done) {
    Link& link = links_[static_cast<std::size_t>(at(index).link)];
    at(index).from != nullptr ? flush(link) : read(link);
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

void SocketMedium::close() {
  links_.clear();
  std::fill(link_of_rank_.begin(), link_of_rank_.end(), -1);
  messages_->close();
}

/// Puts a frame into `frame_`. @return its size
std::size_t SocketMedium::put_frame(const Header& header, const void* data) {
  std::memcpy(frame_.data(), &header, sizeof header);
  if (header.bytes > 0) std::memcpy(frame_.data() + sizeof header, data, header.bytes);
  return sizeof header + header.bytes;
}

/// Sends what the socket takes of `frame_`. @return the number of bytes of the frame that have been sent since its
/// beginning
std::size_t SocketMedium::send_some(Link& link, std::size_t frame, std::size_t from) {
  const ssize_t count = ::send(link.socket.get(), frame_.data() + from, frame - from, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) return from + static_cast<std::size_t>(count);
  if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && !link.end) link.end = Clock::now();
  return from;
}

/// Sends what is left of earlier messages.
void SocketMedium::flush(Link& link) {
  std::size_t sent_messages = 0;
  for (const int index : link.unsent) {
    const std::size_t size = put_frame(at(index).header, at(index).from);
    link.sent_of_first = send_some(link, size, link.sent_of_first);
    if (link.sent_of_first < size) break;
    link.sent_of_first = 0;
    at(index).is_done = true;
    ++sent_messages;
  }
  link.unsent.erase(link.unsent.begin(), link.unsent.begin() + static_cast<std::ptrdiff_t>(sent_messages));
}

/// Receives what has arrived, and delivers whole frames.
void SocketMedium::read(Link& link) {
  const ssize_t count =
      recv(link.socket.get(), link.arrived.data() + link.size, link.arrived.size() - link.size, MSG_DONTWAIT);
  if (count <= 0) {
    const bool is_over = count == 0 || (errno != EAGAIN && errno != EINTR);
    if (is_over && !link.end) link.end = Clock::now();
    return;
  }
  link.size += static_cast<std::size_t>(count);
  std::size_t done = 0;
  Header header;
  while (link.size - done >= sizeof header) {
    std::memcpy(&header, link.arrived.data() + done, sizeof header);
    if (header.bytes > static_cast<std::uint64_t>(limit_.value)) {
      throw Error(ErrorCode::transport,
                  "rank " + std::to_string(link.rank) + " sent something else than a message over its connection",
                  {.peers = {link.rank}});
    }
    const std::size_t size = sizeof header + header.bytes;
    if (link.size - done < size) break;
    deliver(link, header, link.arrived.data() + done + sizeof header);
    done += size;
  }
  link.size -= done;
  if (done > 0 && link.size > 0) std::memmove(link.arrived.data(), link.arrived.data() + done, link.size);
}

/// Gives a message to the first receive that awaits it, or puts it aside.
void SocketMedium::deliver(Link& link, const Header& header, const std::byte* data) {
  const auto receive = std::find_if(link.awaited.begin(), link.awaited.end(),
                                    [&](int index) { return at(index).header.tag == header.tag; });
  if (receive != link.awaited.end()) {
    const int index = *receive;
    link.awaited.erase(receive);
    return fill(at(index), header, data, link.rank);
  }
  Early early;
  if (!spare_.empty()) {
    early = std::move(spare_.back());
    spare_.pop_back();
  }
  early.header = header;
  early.data.assign(data, data + header.bytes);
  link.early.push_back(std::move(early));
}

/// @throws Error{mismatch} if the sizes differ, as when the signatures of different calls have the same hash
void SocketMedium::fill(Flight& flight, const Header& header, const std::byte* data, int rank) {
  if (header.bytes != flight.header.bytes)
    throw other_size(rank, std::to_string(header.bytes) + " where ", {static_cast<std::int64_t>(flight.header.bytes)});
  if (header.bytes > 0) std::memcpy(flight.into, data, header.bytes);
  flight.is_done = true;
}

/// Yields, and helps the other medium, after some time. @throws Error{transport} if the connection has ended a moment
/// ago
void SocketMedium::note_wait(const Link& link) {
  if (++vain_tests_ > next_help_) next_help_ = vain_tests_ + (messages_->help_others() ? 0 : tests_between_helps);
  if (vain_tests_ > tests_before_yield) std::this_thread::yield();
  constexpr std::chrono::milliseconds moment{30};
  if (!link.end || Clock::now() - *link.end < moment) return;
  throw Error(ErrorCode::transport,
              "rank " + std::to_string(link.rank) + " on " + hosts_[static_cast<std::size_t>(link.rank)] +
                  " has ended: its connection is closed",
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

std::vector<int> socket_partners(const ClusterShape& shape, Rank me, bool same_host) {
  constexpr int few = 32;
  const Place here = place_of(shape, me);
  std::vector<int> local_rank;  // of each rank
  std::vector<int> ranks_of_node(static_cast<std::size_t>(shape.nodes()));
  for (const int node : shape.node_of_rank) local_rank.push_back(ranks_of_node[static_cast<std::size_t>(node)]++);
  std::vector<int> all;
  std::vector<int> some;
  const auto is_power_of_two = [](int distance) { return std::has_single_bit(static_cast<unsigned>(distance)); };
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const int node = shape.node_of_rank[static_cast<std::size_t>(rank)];
    if (rank == me.value || (node == here.node && !same_host)) continue;
    all.push_back(rank);
    const bool is_in_lane =
        local_rank[static_cast<std::size_t>(rank)] == here.local_rank && is_power_of_two(std::abs(node - here.node));
    if (is_in_lane || is_power_of_two(std::abs(rank - me.value))) some.push_back(rank);
  }
  return shape.ranks() <= few ? all : some;
}

}  // namespace lockstep::backends
