// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/connection.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
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

/// Accepts connections for all ranks of this process, and keeps each until its rank requests it.
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

/// The medium that the caller offers and the other side accepts.
enum class Medium : char { memory, socket };

bool may_share_memory() {
  const char* text = std::getenv("NCCL_SHM_DISABLE");
  return text == nullptr || std::string_view(text) != "1";
}

std::unique_ptr<Connection> call(std::uint64_t name, int me, int peer, const sockaddr_in& address, bool is_same_host,
                                 const std::function<bool()>& stop) {
  Socket socket = connect_to(address, stop);
  const Caller caller{name, me, peer};
  if (!socket.is_open() || !send_all(socket, &caller, sizeof caller, stop)) return nullptr;
  std::unique_ptr<SharedRings> memory = is_same_host && may_share_memory() ? SharedRings::make() : nullptr;
  const SharedRings::Place place = memory ? memory->place() : SharedRings::Place();
  Medium medium = Medium::socket;
  if (!send_all(socket, &place, sizeof place, stop) || !receive_all(socket, &medium, 1, stop)) return nullptr;
  if (memory) memory->close_place();
  if (medium == Medium::socket) memory.reset();
  return std::make_unique<Connection>(std::move(socket), std::move(memory));
}

std::unique_ptr<Connection> be_called(std::uint64_t name, int me, int peer, bool is_same_host,
                                      const std::function<bool()>& stop) {
  Socket socket = switchboard().answer({name, peer, me}, stop);
  SharedRings::Place place;
  if (!socket.is_open() || !receive_all(socket, &place, sizeof place, stop)) return nullptr;
  std::unique_ptr<SharedRings> memory = is_same_host && place.file >= 0 ? SharedRings::open(place) : nullptr;
  const Medium medium = memory ? Medium::memory : Medium::socket;
  if (!send_all(socket, &medium, 1, stop)) return nullptr;
  return std::make_unique<Connection>(std::move(socket), std::move(memory));
}

}  // namespace

sockaddr_in address_for_peers() { return address_of(switchboard().listener()); }

std::unique_ptr<Connection> connect_pair(std::uint64_t name, int me, int peer, const sockaddr_in& address_of_peer,
                                         bool is_same_host, const std::function<bool()>& stop) {
  return me < peer ? call(name, me, peer, address_of_peer, is_same_host, stop)
                   : be_called(name, me, peer, is_same_host, stop);
}

void Connection::put(const std::byte* data, std::size_t bytes) { out_.insert(out_.end(), data, data + bytes); }

bool Connection::move() {
  if (broken_) return false;
  const bool sent = send_some();
  return receive_some() || sent;
}

bool Connection::send_some() {
  if (all_sent()) return false;
  const std::ptrdiff_t sent = send(out_.data() + sent_, out_.size() - sent_);
  if (sent <= 0) return false;
  sent_ += static_cast<std::size_t>(sent);
  if (all_sent()) {
    out_.clear();
    sent_ = 0;
  }
  return true;
}

bool Connection::receive_some() {
  if (available() > most_untaken) return false;
  static thread_local std::array<std::byte, piece> fresh;
  const std::ptrdiff_t received = receive(fresh.data(), fresh.size());
  if (received <= 0) return false;
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  in_.insert(in_.end(), fresh.begin(), fresh.begin() + received);
  return true;
}

std::ptrdiff_t Connection::send(const std::byte* from, std::size_t bytes) {
  if (memory_) return static_cast<std::ptrdiff_t>(memory_->out().write(from, bytes));
  const std::ptrdiff_t sent = ::send(socket_.handle(), from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
  return sent;
}

std::ptrdiff_t Connection::receive(std::byte* to, std::size_t bytes) {
  if (memory_) {
    if (const std::size_t received = memory_->in().read(to, bytes); received > 0)
      return static_cast<std::ptrdiff_t>(received);
  }
  const std::ptrdiff_t received = recv(socket_.handle(), to, bytes, MSG_DONTWAIT);
  if (received < 0) broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
  if (received == 0) broken_ = true;
  if (!memory_ || !broken_) return received;
  // Data that the peer wrote before it left may have arrived since the last read.
  const std::size_t last = memory_->in().read(to, bytes);
  broken_ = last == 0;
  return static_cast<std::ptrdiff_t>(last);
}

}  // namespace emulated_gpu
