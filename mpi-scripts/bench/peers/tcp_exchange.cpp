// SPDX-License-Identifier: Apache-2.0
// tcp_exchange measures the time to move the bytes of an all-reduce between two hosts without any library. Each rank
// sends its buffer to the other one through a plain non-blocking connection, polls for the other's buffer, and adds
// nothing. Flags and exit codes: run_peer.
#include <fcntl.h>
#include <mpi.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "apps/comm-bench/exercise.hpp"
#include "mpi-scripts/bench/peers/peer.hpp"

namespace lockstep::peers {
namespace {

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(checked(descriptor, "socket")) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct Place {
  std::array<char, 256> host{};
  in_port_t port = 0;  // in network byte order
};

int rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Connects the ranks: rank 0 listens, rank 1 connects to its host name. Collective.
Socket connect_pair() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) throw std::runtime_error("there must be two ranks");
  const Socket listener(socket(AF_INET, SOCK_STREAM, 0));
  Place place;
  sockaddr_in address{};
  socklen_t length = sizeof address;
  address.sin_family = AF_INET;
  if (rank() == 0) {
    checked(bind(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), length), "bind");
    checked(listen(listener.descriptor(), 1), "listen");
    checked(getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
    checked(gethostname(place.host.data(), place.host.size() - 1), "gethostname");
    place.port = address.sin_port;
  }
  MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank() == 0) return Socket(accept(listener.descriptor(), nullptr, nullptr));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (getaddrinfo(place.host.data(), nullptr, &hints, &found) != 0)
    throw std::runtime_error(std::string("no address of ") + place.host.data());
  address = *reinterpret_cast<sockaddr_in*>(found->ai_addr);
  address.sin_port = place.port;
  freeaddrinfo(found);
  Socket caller(socket(AF_INET, SOCK_STREAM, 0));
  checked(connect(caller.descriptor(), reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
  return caller;
}

class Connection {
 public:
  Connection() : socket_(connect_pair()) {
    const int on = 1;
    checked(setsockopt(socket_.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
    checked(fcntl(socket_.descriptor(), F_SETFL, O_NONBLOCK), "O_NONBLOCK");
  }

  /// Transfers in both directions at once, in pieces. At most `ahead` bytes more are sent than have arrived.
  void exchange(const std::byte* out, std::byte* in, std::int64_t bytes, std::int64_t piece, std::int64_t ahead) {
    std::int64_t sent = 0;
    std::int64_t came = 0;
    while (sent < bytes || came < bytes) {
      const std::int64_t next = std::min({piece, bytes - sent, came + ahead - sent});
      if (next > 0) sent += moved(send(socket_.descriptor(), out + sent, static_cast<std::size_t>(next), MSG_NOSIGNAL));
      if (came < bytes) {
        const std::int64_t room = std::min(piece, bytes - came);
        came += moved(recv(socket_.descriptor(), in + came, static_cast<std::size_t>(room), 0));
      }
    }
  }

 private:
  static std::int64_t moved(ssize_t result) {
    if (result >= 0) return result;
    if (errno != EAGAIN && errno != EINTR) throw std::system_error(errno, std::generic_category(), "send or receive");
    return 0;
  }

  Socket socket_;
};

class Exchange : public comm_bench::Contender {
 public:
  Exchange(std::string name, Connection& connection, std::byte* in, std::int64_t piece)
      : Contender(std::move(name)), connection_(&connection), in_(in), piece_(piece) {}

  void run(const Collective& c) override {
    connection_->exchange(static_cast<const std::byte*>(c.out.data), in_, c.out.bytes().value, piece_, 4 * piece_);
  }
  void close() override {}

 private:
  Connection* connection_;
  std::byte* in_;
  std::int64_t piece_;
};

/// Checks that the received data are the other rank's input.
class Exchanged : public comm_bench::Exercise {
 public:
  Exchanged(const Shape& shape, void* memory, const std::byte* in)
      : Exercise(shape, memory), in_{in, shape.part, shape.dtype}, pattern_(shape.dtype, shape.ranks) {}

  [[nodiscard]] std::int64_t wrong(std::int64_t repetition) override {
    pattern_.set_input(1 - rank(), repetition);
    return pattern_.differences(in_, 0);
  }

 private:
  ConstBuffer in_;
  comm_bench::Pattern pattern_;
};

class TcpExchange : public Peer {
 public:
  [[nodiscard]] std::string title() const override { return "TCP exchange"; }
  void* allocate(Bytes bytes) override {
    in_ = allocate_host(bytes);
    return Peer::allocate(bytes);
  }
  comm_bench::Contenders contenders() override {
    comm_bench::Contenders all;
    for (const int kib : {16, 64, 256}) {
      all.push_back(std::make_unique<Exchange>("pieces of " + std::to_string(kib) + " KiB", connection_,
                                               static_cast<std::byte*>(in_.data()), kib << 10));
    }
    return all;
  }
  std::unique_ptr<comm_bench::Exercise> exercise(const comm_bench::Exercise::Shape& shape, void* memory) override {
    return std::make_unique<Exchanged>(shape, memory, static_cast<const std::byte*>(in_.data()));
  }

 private:
  Connection connection_;
  Allocation in_;
};

}  // namespace
}  // namespace lockstep::peers

int main(int argc, char** argv) {
  return lockstep::peers::run_peer(argc, argv, [] { return std::make_unique<lockstep::peers::TcpExchange>(); });
}
