// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace emulated_gpu {

/// A TCP socket that is closed with it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] int handle() const { return handle_; }
  [[nodiscard]] bool is_open() const { return handle_ >= 0; }

 private:
  int handle_ = -1;
};

/// Listens on a port of the system's choice, on all interfaces.
Socket listen_anywhere();
/// Waits for the next who connects. Not open if that failed.
Socket accept_from(const Socket& listener);
/// Where others reach it: by the interface that NCCL_SOCKET_IFNAME names, else the first that is not the loopback, else
/// that. The environment of NCCL's User Guide; its lists and exclusions are not emulated.
sockaddr_in address_of(const Socket& listener);
/// Tries until somebody listens there or `stop` says so; then the socket is not open.
Socket connect_to(const sockaddr_in& address, const std::function<bool()>& stop);

/// All of it, waiting. @return whether it could be, before the peer or `stop` ended it
bool send_all(const Socket& socket, const void* data, std::size_t bytes, const std::function<bool()>& stop);
bool receive_all(const Socket& socket, void* data, std::size_t bytes, const std::function<bool()>& stop);

}  // namespace emulated_gpu
