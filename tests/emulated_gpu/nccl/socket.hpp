// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace emulated_gpu {

/// A TCP socket, which the destructor closes.
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
/// Waits for the next connection. The result is not open if that failed.
Socket accept_from(const Socket& listener);
/// Returns the address at which others reach it: that of the interface in NCCL_SOCKET_IFNAME, otherwise of the first
/// one that is not the loopback, otherwise of the loopback. The variable is documented in NCCL's User Guide; its lists
/// and exclusions are not emulated.
sockaddr_in address_of(const Socket& listener);
/// Tries until a process listens there or `stop` returns true; then the socket is not open.
Socket connect_to(const sockaddr_in& address, const std::function<bool()>& stop);

/// Transfers all bytes, and waits for it. @return false if the peer or `stop` ended it
bool send_all(const Socket& socket, const void* data, std::size_t bytes, const std::function<bool()>& stop);
bool receive_all(const Socket& socket, void* data, std::size_t bytes, const std::function<bool()>& stop);

}  // namespace emulated_gpu
