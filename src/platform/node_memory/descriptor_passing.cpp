// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/descriptor_passing.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const std::string& what) {
  throw Error(ErrorCode::unsupported,
              what +
                  "; ranks of a node pass each other memory over abstract Unix sockets, which needs one network "
                  "namespace and one user for all of them");
}

Descriptor make_socket() {
  Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.open()) give_up(failed("socket"));
  return made;
}

/// Calls `use` with the socket address of a name: a zero byte and the name without one at its end.
template <typename Use>
int with_address(const std::string& name, Use use) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(&address.sun_path[1], name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return use(reinterpret_cast<const sockaddr*>(&address), length);
}

void await_input(const Descriptor& socket, Clock::time_point until, const char* what) {
  pollfd watched{.fd = socket.get(), .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const int ready = poll(&watched, 1, static_cast<int>(std::max<decltype(left)>(left, 0)));
    if (ready > 0) return;
    if (ready == 0) throw Error(ErrorCode::timeout, what);
    if (errno != EINTR) give_up(failed("poll"));
  }
}

bool same_user(const Descriptor& connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/// One byte of message, since a descriptor cannot travel alone, with room for the descriptor beside it.
struct Parcel {
  char byte = 0;
  iovec bytes{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> beside{};
  msghdr message{.msg_name = nullptr,
                 .msg_namelen = 0,
                 .msg_iov = &bytes,
                 .msg_iovlen = 1,
                 .msg_control = beside.data(),
                 .msg_controllen = beside.size(),
                 .msg_flags = 0};
};

void send_descriptor(const Descriptor& connection, int descriptor) {
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  if (sendmsg(connection.get(), &parcel.message, MSG_NOSIGNAL) != 1) give_up(failed("sendmsg"));
}

}  // namespace

DescriptorSender::DescriptorSender(int receivers) : socket_(make_socket()), receivers_(receivers) {
  std::random_device random;
  name_ = "lockstep-" + std::to_string(getpid()) + '-' + std::to_string(random()) + '-' + std::to_string(random());
  const auto bound = with_address(
      name_, [this](const sockaddr* address, socklen_t length) { return bind(socket_.get(), address, length); });
  if (bound != 0) give_up(failed("bind"));
  if (listen(socket_.get(), receivers) != 0) give_up(failed("listen"));
}

void DescriptorSender::send(int descriptor, std::chrono::milliseconds deadline) {
  const auto until = Clock::now() + deadline;
  for (int sent = 0; sent < receivers_;) {
    await_input(socket_, until, "not all ranks of the node came to fetch the shared memory");
    const Descriptor connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.open() && errno == EINTR) continue;
    if (!connection.open()) give_up(failed("accept"));
    if (!same_user(connection)) continue;
    send_descriptor(connection, descriptor);
    ++sent;
  }
}

Descriptor connect_to_sender(const std::string& name, std::chrono::milliseconds deadline) {
  Descriptor connection = make_socket();
  // Where the queue of those who connect is full, connect() waits this long.
  const timeval limit{.tv_sec = deadline.count() / 1000, .tv_usec = deadline.count() % 1000 * 1000};
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const auto connected = with_address(name, [&connection](const sockaddr* address, socklen_t length) {
    int result = -1;
    while ((result = connect(connection.get(), address, length)) != 0 && errno == EINTR) {
    }
    return result;
  });
  if (connected != 0) give_up(failed("connect"));
  if (!same_user(connection)) give_up("the local rank 0 runs as another user");
  return connection;
}

Descriptor receive_descriptor(const Descriptor& connection, std::chrono::milliseconds deadline) {
  await_input(connection, Clock::now() + deadline, "the local rank 0 did not send the shared memory");
  Parcel parcel;
  if (recvmsg(connection.get(), &parcel.message, MSG_CMSG_CLOEXEC) != 1) give_up(failed("recvmsg"));
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) give_up("no open file came with the message");
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof number);
  return Descriptor(number);
}

}  // namespace lockstep
