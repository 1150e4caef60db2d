// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/tcp_control_link.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <thread>

#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/connector.hpp"
#include "platform/tcp/greeting.hpp"
#include "platform/tcp/listener.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

/// On a connection there is a greeting, the length of the text, and the text.
class TcpControlLink final : public ControlLink {
 public:
  /// Where texts to this rank arrive; one line. Empty if there is no socket.
  [[nodiscard]] const std::string& address() const { return listener_.address(); }

  /// @param addresses  `address()` of all ranks
  /// @param hosts      by which this rank reaches them
  void meet(int me, const std::vector<std::string>& addresses, const std::vector<std::string>& hosts) {
    me_ = me;
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
      ranks_.push_back(tcp_address_from(addresses[rank]));
      ranks_.back().hosts = {hosts[rank]};
    }
  }

  void send(const std::vector<int>& ranks, const std::string& text, Delivery /*delivery*/) override {
    const auto length = static_cast<std::uint32_t>(text.size());
    for (const int rank : ranks) {
      const Greeting greeting =
          greeting_to(secret_of(ranks_[static_cast<std::size_t>(rank)]), Purpose::control_text, me_);
      Leaving& one = leaving_.emplace_back(Leaving{.rank = rank, .end = Clock::now() + time_to_leave});
      one.bytes.append(reinterpret_cast<const char*>(&greeting), sizeof greeting);
      one.bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
      one.bytes += text;
    }
    advance();
  }

  /// What has left arrives, and at no later communicator, because each has listeners of its own.
  bool is_acknowledged() override {
    advance();
    return leaving_.empty();
  }

  void push() override {
    constexpr std::chrono::milliseconds at_most{20};
    const auto begin = Clock::now();
    while (!is_acknowledged() && Clock::now() - begin < at_most) std::this_thread::yield();
  }

  std::optional<std::string> receive() override {
    advance();
    // The others wait in the system's queue, with their text, and their senders wait for nothing.
    for (const ConnectedSocket& listener : listener_.sockets())
      arrivals_.accept_from(listener.get(), most_at_a_time - std::min(coming_.size(), most_at_a_time));
    for (Arrival& arrival : arrivals_.those_who_know())
      if (arrival.greeting().purpose == Purpose::control_text) coming_.push_back({ConnectedSocket(arrival.take()), {}});
    std::optional<std::string> text;
    std::erase_if(coming_, [&](Coming& one) { return !text && receive(one, text); });
    return text;
  }

  void close() override {
    leaving_.clear();
    coming_.clear();
    listener_.close();
  }

 private:
  static constexpr std::chrono::milliseconds time_to_leave{3000};
  static constexpr std::size_t most_at_a_time = 32;
  static constexpr std::uint32_t longest = 1U << 20;

  struct Leaving {
    int rank;
    Clock::time_point end;  // after it the text counts as sent
    ConnectedSocket connection{};
    std::string bytes{};
    std::size_t sent = 0;
  };
  struct Coming {
    ConnectedSocket connection;
    std::string bytes;
  };

  /// Sends what can leave.
  void advance() {
    std::size_t others = 0;
    std::erase_if(leaving_, [&](Leaving& one) {
      return others < most_at_a_time && (has_left(one) || (++others, Clock::now() > one.end));
    });
  }

  /// A rank that has ended keeps the others from nothing: a text to it counts as sent.
  bool has_left(Leaving& one) {
    if (!one.connection.open()) {
      const TcpAddress& its = ranks_[static_cast<std::size_t>(one.rank)];
      one.connection = ConnectedSocket(begin_connection(its.hosts.front(), its.tcp));
      if (!one.connection.open()) return errno != EMFILE && errno != ENFILE;
    }
    const ssize_t count = ::send(one.connection.get(), one.bytes.data() + one.sent, one.bytes.size() - one.sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) one.sent += static_cast<std::size_t>(count);
    if (count >= 0 || errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return one.sent == one.bytes.size();
    if (errno != EPIPE && errno != ECONNRESET) return true;
    // The other rank had too many strangers at its door, or has ended, which the next attempt shows.
    one.connection = ConnectedSocket();
    one.sent = 0;
    return false;
  }

  /// @return whether the connection has nothing more to say
  static bool receive(Coming& one, std::optional<std::string>& text) {
    std::array<char, 4096> piece{};
    ssize_t count = 0;
    while ((count = recv(one.connection.get(), piece.data(), piece.size(), MSG_DONTWAIT)) > 0) {
      one.bytes.append(piece.data(), static_cast<std::size_t>(count));
      std::uint32_t length = 0;
      if (one.bytes.size() < sizeof length) continue;
      std::memcpy(&length, one.bytes.data(), sizeof length);
      if (length > longest) return true;
      if (one.bytes.size() < sizeof length + length) continue;
      text = one.bytes.substr(sizeof length, length);
      return true;
    }
    return count == 0 || (errno != EAGAIN && errno != EINTR);
  }

  int me_ = -1;
  TcpListener listener_;
  std::vector<TcpAddress> ranks_;
  Arrivals arrivals_{listener_.secret()};
  std::deque<Leaving> leaving_;
  std::vector<Coming> coming_;
};

/// Finds out by which address each rank's host is reached. Collective. @throws Error{transport} on every rank
std::vector<std::string> hosts_that_answer(const RankSet& set) {
  const ClusterShape& shape = set.shape();
  Connector connector;
  const auto connections = require_connections(set, connector, partners_on_nodes(shape, set.rank()));
  // A rank of the same node is reached by any address of the node.
  std::vector<std::string> of_node(static_cast<std::size_t>(shape.nodes()), own_addresses().hosts.front());
  const auto node_of = [&shape](int rank) {
    return static_cast<std::size_t>(shape.node_of_rank[static_cast<std::size_t>(rank)]);
  };
  for (const Connection& one : connections) of_node[node_of(one.rank)] = host_of_peer(one.socket.get());
  std::vector<std::string> hosts;
  for (int rank = 0; rank < set.size(); ++rank) hosts.push_back(of_node[node_of(rank)]);
  return hosts;
}

}  // namespace

std::vector<int> partners_on_nodes(const ClusterShape& shape, Rank me) {
  const Place here = place_of(shape, me);
  const auto mine = std::ssize(shape.ranks_on(here.node));
  std::vector<int> partners;
  for (int node = 0; node < shape.nodes(); ++node) {
    if (node == here.node) continue;
    const std::vector<int> ranks = shape.ranks_on(node);
    const auto smaller = std::min(mine, std::ssize(ranks));
    for (auto local = here.local_rank % smaller; local < std::ssize(ranks); local += smaller)
      partners.push_back(ranks[static_cast<std::size_t>(local)]);
  }
  std::sort(partners.begin(), partners.end());
  return partners;
}

std::unique_ptr<ControlLink> make_tcp_control_link(const RankSet& set) {
  const std::vector<std::string> hosts = hosts_that_answer(set);
  auto link = std::make_unique<TcpControlLink>();
  const std::vector<std::string> addresses = set.exchange(link->address());
  const auto without = std::find(addresses.begin(), addresses.end(), std::string());
  if (without != addresses.end()) {
    const auto rank = static_cast<int>(without - addresses.begin());
    throw Error(ErrorCode::transport, "rank " + std::to_string(rank) + " on " + set.host_of({rank}) + " has no socket",
                {.rank = set.rank().value, .host = set.host(), .peers = {rank}})
        .on_every_rank();
  }
  link->meet(set.rank().value, addresses, hosts);
  return link;
}

}  // namespace lockstep
