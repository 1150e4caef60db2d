// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/descriptor_passing.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <csignal>
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

/// A message of one byte, because a descriptor cannot travel alone, with space for the descriptor.
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

/// @return whether it was sent; sending to a receiver that has gone fails
bool send_descriptor(const Descriptor& connection, int descriptor) {
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(connection.get(), &parcel.message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/// Blocks all signals on the calling thread. A thread that starts meanwhile inherits this and so never runs the
/// process's signal handlers, which may expect to run on another thread.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

std::pair<sockaddr_un, socklen_t> unix_address(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name = name.substr(0, sizeof address.sun_path - 1);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

bool is_of_this_user(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

Descriptor open_descriptor_of(pid_t process, int descriptor, const FileIdentity& file) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  // The identity is checked first: if the number belongs to another process, the file may be a device, and opening a
  // device can have side effects.
  if (identity_of(path) != file) return {};
  return Descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

DescriptorSender::DescriptorSender(int descriptor, std::uint64_t nonce)
    : socket_(make_socket()), stop_(eventfd(0, EFD_CLOEXEC)), descriptor_(descriptor), nonce_(nonce) {
  std::random_device random;
  name_ = "lockstep-" + std::to_string(getpid()) + '-' + std::to_string(random()) + '-' + std::to_string(random());
  const auto [address, length] = unix_address(name_);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) give_up(failed("bind"));
  if (listen(socket_.get(), SOMAXCONN) != 0) give_up(failed("listen"));
  if (fcntl(socket_.get(), F_SETFL, O_NONBLOCK) != 0 || !stop_.open()) give_up(failed("fcntl or eventfd"));
  const WithoutSignals inherited_by_the_thread;
  thread_ = std::thread([this] { serve(); });
}

DescriptorSender::~DescriptorSender() {
  const std::uint64_t one = 1;
  if (::write(stop_.get(), &one, sizeof one) == sizeof one) thread_.join();
}

void DescriptorSender::serve() {
  std::vector<pollfd> watched;
  for (;;) {
    watched = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
               {.fd = socket_.get(), .events = POLLIN, .revents = 0}};
    for (const Descriptor& connection : connections_)
      watched.push_back({.fd = connection.get(), .events = POLLIN, .revents = 0});
    if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
    if (watched.front().revents != 0) return;
    answer_those_who_have_written();
    accept_some();
  }
}

/// Accepts connections of all users, so that those of other users do not fill the queue. A genuine receiver writes at
/// once, so if many connections are silent, the oldest are closed after a moment.
void DescriptorSender::accept_some() {
  constexpr std::size_t most = 256;
  constexpr std::size_t at_a_time = 64;
  if (connections_.size() >= most) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    answer_those_who_have_written();
    connections_.erase(connections_.begin(), connections_.begin() + std::min(connections_.size(), at_a_time));
  }
  for (std::size_t accepted = 0; accepted < at_a_time; ++accepted) {
    Descriptor connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.open()) {
      const bool has_too_many_files = errno == EMFILE || errno == ENFILE;
      if (has_too_many_files) connections_.clear();
      if (has_too_many_files) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    if (is_of_this_user(connection.get())) connections_.push_back(std::move(connection));
  }
}

void DescriptorSender::answer_those_who_have_written() {
  std::erase_if(connections_, [this](const Descriptor& connection) {
    std::uint64_t shown = 0;
    const ssize_t bytes = recv(connection.get(), &shown, sizeof shown, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (bytes == sizeof shown && shown == nonce_) (void)send_descriptor(connection, descriptor_);
    return true;
  });
}

namespace {

Descriptor connect_to(const std::string& name, std::chrono::milliseconds deadline) {
  Descriptor connection = make_socket();
  // If the queue of pending connections is full, connect() waits this long.
  const timeval limit{.tv_sec = deadline.count() / 1000, .tv_usec = deadline.count() % 1000 * 1000};
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const auto [address, length] = unix_address(name);
  int result = -1;
  while ((result = connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), length)) != 0 &&
         errno == EINTR) {
  }
  if (result != 0) give_up(failed("connect"));
  if (!is_of_this_user(connection.get())) give_up("the local rank 0 runs as another user");
  return connection;
}

/// @return an empty descriptor if the sender closes the connection
Descriptor receive_over(const Descriptor& connection, std::uint64_t nonce, Clock::time_point until) {
  if (send(connection.get(), &nonce, sizeof nonce, MSG_NOSIGNAL) != sizeof nonce) return {};
  await_input(connection, until, "the local rank 0 did not send the shared memory");
  Parcel parcel;
  if (recvmsg(connection.get(), &parcel.message, MSG_CMSG_CLOEXEC) != 1) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) give_up("no open file came with the message");
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof number);
  return Descriptor(number);
}

}  // namespace

/// Tries repeatedly, because the sender closes the oldest connections if there are too many.
Descriptor receive_descriptor(const std::string& name, std::uint64_t nonce, std::chrono::milliseconds deadline) {
  const auto until = Clock::now() + deadline;
  do {
    Descriptor received = receive_over(connect_to(name, deadline), nonce, until);
    if (received.open()) return received;
  } while (Clock::now() < until);
  give_up("the local rank 0 closed the connection");
}

}  // namespace lockstep
