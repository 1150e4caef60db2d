// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/connection.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

namespace emulated_gpu {
namespace {

constexpr std::size_t piece = std::size_t{256} << 10;

struct Caller {
  std::uint64_t name;
  std::int32_t from;
  std::int32_t to;
  auto operator<=>(const Caller&) const = default;
};

/// Takes the calls for all ranks of this process, and keeps each until its rank asks for it.
class Switchboard {
 public:
  Switchboard() : listener_(listen_anywhere()) {
    std::thread([this] { serve(); }).detach();
  }
  [[nodiscard]] const Socket& listener() const { return listener_; }

  Socket answer(const Caller& caller, const std::function<bool()>& stop) {
    while (!stop()) {
      {
        const std::scoped_lock lock(mutex_);
        const auto call = calls_.find(caller);
        if (call != calls_.end()) {
          Socket socket = std::move(call->second);
          calls_.erase(call);
          return socket;
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    return {};
  }

 private:
  void serve() {
    for (;;) {
      Socket socket = accept_from(listener_);
      Caller caller{};
      if (!socket.is_open() || !receive_all(socket, &caller, sizeof caller, [] { return false; })) continue;
      const std::scoped_lock lock(mutex_);
      calls_[caller] = std::move(socket);
    }
  }

  Socket listener_;
  std::mutex mutex_;
  std::map<Caller, Socket> calls_;
};

Switchboard& switchboard() {
  static auto* board = new Switchboard;
  return *board;
}

}  // namespace

sockaddr_in address_for_peers() { return address_of(switchboard().listener()); }

std::unique_ptr<Connection> connect_pair(std::uint64_t name, int me, int peer, const sockaddr_in& address_of_peer,
                                         const std::function<bool()>& stop) {
  Socket socket;
  if (me < peer) {
    socket = connect_to(address_of_peer, stop);
    const Caller caller{name, me, peer};
    if (!socket.is_open() || !send_all(socket, &caller, sizeof caller, stop)) return nullptr;
  } else {
    socket = switchboard().answer({name, peer, me}, stop);
  }
  // Both are there when both have heard of it.
  char word = 'r';
  if (!socket.is_open() || !send_all(socket, &word, 1, stop) || !receive_all(socket, &word, 1, stop)) return nullptr;
  return std::make_unique<Connection>(std::move(socket));
}

void Connection::put(const std::byte* data, std::size_t bytes) { out_.insert(out_.end(), data, data + bytes); }

bool Connection::move() {
  if (broken_) return false;
  const bool sent = send_some();
  return receive_some() || sent;
}

bool Connection::send_some() {
  if (all_sent()) return false;
  const ssize_t sent = send(socket_.handle(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    return false;
  }
  sent_ += static_cast<std::size_t>(sent);
  if (all_sent()) {
    out_.clear();
    sent_ = 0;
  }
  return sent > 0;
}

bool Connection::receive_some() {
  if (available() > most_untaken) return false;
  static thread_local std::array<std::byte, piece> fresh;
  const ssize_t received = recv(socket_.handle(), fresh.data(), fresh.size(), MSG_DONTWAIT);
  if (received == 0) broken_ = true;
  if (received < 0) broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
  if (received <= 0) return false;
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  in_.insert(in_.end(), fresh.begin(), fresh.begin() + received);
  return true;
}

}  // namespace emulated_gpu
