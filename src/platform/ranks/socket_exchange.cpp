// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/socket_exchange.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platform/ranks/connector.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

class SocketExchange final : public Exchange {
 public:
  SocketExchange(const RankSet& set, std::vector<Connection> connections)
      : rank_(set.rank().value), size_(set.size()), hosts_(set.hosts()) {
    for (Connection& one : connections) sockets_[one.rank] = std::move(one.socket);
  }

  void begin(std::span<const std::byte> own) override {
    bytes_ = own.size();
    from_me_backwards_.resize(bytes_ * static_cast<std::size_t>(size_));
    std::copy(own.begin(), own.end(), from_me_backwards_.begin());
    distance_ = 1;
    sent_ = received_ = 0;
  }

  std::span<const std::byte> poll() override {
    while (distance_ < size_) {
      const std::size_t bytes = bytes_ * static_cast<std::size_t>(std::min(distance_, size_ - distance_));
      send_some(bytes);
      receive_some(bytes);
      if (sent_ < bytes || received_ < bytes) return {};
      distance_ *= 2;
      sent_ = received_ = 0;
    }
    all_.resize(from_me_backwards_.size());
    for (int back = 0; back < size_; ++back)
      std::copy_n(block(back), bytes_, all_.begin() + std::ssize(all_) / size_ * ((rank_ + size_ - back) % size_));
    return all_;
  }

  void close() override { sockets_.clear(); }

 private:
  /// The bytes of the rank so far before this one.
  std::byte* block(int back) { return from_me_backwards_.data() + bytes_ * static_cast<std::size_t>(back); }

  void send_some(std::size_t bytes) {
    const int to = (rank_ + distance_) % size_;
    if (sent_ == bytes) return;
    note(to, ::send(sockets_.at(to).get(), block(0) + sent_, bytes - sent_, MSG_NOSIGNAL | MSG_DONTWAIT), sent_);
  }
  void receive_some(std::size_t bytes) {
    const int from = (rank_ + size_ - distance_) % size_;
    if (received_ == bytes) return;
    const ssize_t count = recv(sockets_.at(from).get(), block(distance_) + received_, bytes - received_, MSG_DONTWAIT);
    if (count == 0) return note_end(from);
    note(from, count, received_);
  }

  void note(int peer, ssize_t count, std::size_t& done) {
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) note_end(peer);
  }
  /// A rank that has given a reason over the control channel is reported with that reason, which may take a moment.
  void note_end(int peer) {
    constexpr std::chrono::milliseconds moment{30};
    if (!end_) end_ = Clock::now();
    if (Clock::now() - *end_ < moment) return;
    throw Error(ErrorCode::transport,
                "rank " + std::to_string(peer) + " on " + hosts_[static_cast<std::size_t>(peer)] +
                    " has ended: its connection is closed",
                {.peers = {peer}});
  }

  int rank_;
  int size_;
  std::vector<std::string> hosts_;
  std::map<int, ConnectedSocket> sockets_;  // by rank
  std::size_t bytes_ = 0;                   // of each rank
  std::vector<std::byte> from_me_backwards_;
  std::vector<std::byte> all_;
  int distance_ = 1;
  std::size_t sent_ = 0;  // in this step
  std::size_t received_ = 0;
  std::optional<Clock::time_point> end_;  // when a connection was found to have ended
};

}  // namespace

std::unique_ptr<Exchange> make_socket_exchange(const RankSet& set) {
  std::vector<int> partners;
  for (int distance = 1; distance < set.size(); distance *= 2)
    for (const int partner : {set.rank().value + distance, set.rank().value + set.size() - distance})
      partners.push_back(partner % set.size());
  std::sort(partners.begin(), partners.end());
  partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
  Connector connector;
  return std::make_unique<SocketExchange>(set, require_connections(set, connector, partners));
}

}  // namespace lockstep
