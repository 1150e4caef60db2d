// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "emulated_gpu/device/violation.hpp"

namespace emulated_gpu {
namespace {

constexpr int look_around_milliseconds = 20;  // how often `stop` is called

bool is_wanted(const ifaddrs& interface, std::string_view prefix, bool loopback) {
  if (interface.ifa_addr == nullptr || interface.ifa_addr->sa_family != AF_INET) return false;
  if ((interface.ifa_flags & IFF_UP) == 0) return false;
  if (!prefix.empty()) return std::string_view(interface.ifa_name).starts_with(prefix);
  return ((interface.ifa_flags & IFF_LOOPBACK) != 0) == loopback;
}

in_addr own_address() {
  const char* wanted = std::getenv("NCCL_SOCKET_IFNAME");
  const std::string_view prefix = wanted == nullptr ? "" : wanted;
  ifaddrs* all = nullptr;
  in_addr found{htonl(INADDR_LOOPBACK)};
  if (getifaddrs(&all) != 0) return found;
  for (const bool loopback : {true, false}) {  // the last match counts: the loopback is the last resort
    for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
      if (!is_wanted(*i, prefix, loopback)) continue;
      found = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
      break;
    }
  }
  freeifaddrs(all);
  return found;
}

void set_options(int handle) {
  const int on = 1;
  setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(handle, F_SETFL, fcntl(handle, F_GETFL) | O_NONBLOCK);
}

/// Waits briefly until the socket is ready.
void wait_a_little(int handle, short what) {
  pollfd entry{handle, what, 0};
  poll(&entry, 1, look_around_milliseconds);
}

}  // namespace

Socket::~Socket() {
  if (handle_ >= 0) close(handle_);
}

Socket listen_anywhere() {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (bind(listener.handle(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      listen(listener.handle(), SOMAXCONN) != 0) {
    violation("NCCL's emulation cannot listen on a port");
  }
  return listener;
}

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.handle(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.is_open()) set_options(socket.handle());
  return socket;
}

sockaddr_in address_of(const Socket& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(listener.handle(), reinterpret_cast<sockaddr*>(&address), &size);
  address.sin_family = AF_INET;
  address.sin_addr = own_address();
  return address;
}

Socket connect_to(const sockaddr_in& address, const std::function<bool()>& stop) {
  while (!stop()) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(socket.handle(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      set_options(socket.handle());
      return socket;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

bool send_all(const Socket& socket, const void* data, std::size_t bytes, const std::function<bool()>& stop) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket.handle(), from, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      from += sent;
      bytes -= static_cast<std::size_t>(sent);
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
    if (stop()) return false;
    wait_a_little(socket.handle(), POLLOUT);
  }
  return true;
}

bool receive_all(const Socket& socket, void* data, std::size_t bytes, const std::function<bool()>& stop) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(socket.handle(), to, bytes, MSG_DONTWAIT);
    if (received > 0) {
      to += received;
      bytes -= static_cast<std::size_t>(received);
      continue;
    }
    if (received == 0) return false;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
    if (stop()) return false;
    wait_a_little(socket.handle(), POLLIN);
  }
  return true;
}

}  // namespace emulated_gpu
