// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/connector.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/watchdog/tcp.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

/// The first bytes on a connection, in both directions.
struct Greeting {
  std::array<char, 32> secret{};  // of the receiver of the greeting
  std::int32_t rank = -1;         // of its sender

  friend bool operator==(const Greeting&, const Greeting&) = default;
};

Greeting greeting_to(const std::string& secret, int me) {
  Greeting greeting{.rank = me};
  std::copy_n(secret.begin(), std::min(secret.size(), greeting.secret.size()), greeting.secret.begin());
  return greeting;
}

std::string text_of_errno(int number) { return std::generic_category().message(number); }

/// A connection whose greetings have not all been exchanged.
struct Attempt {
  int rank = -1;  // −1 for one that has been accepted
  Descriptor socket;
  Greeting to_send;
  bool is_sent = false;
  Greeting received;
  std::size_t bytes_received = 0;

  /// Receives the greeting of the other side. @return whether the connection is broken
  bool receive() {
    auto* const into = reinterpret_cast<char*>(&received) + bytes_received;
    const ssize_t count = recv(socket.get(), into, sizeof received - bytes_received, MSG_DONTWAIT);
    if (count <= 0) return count == 0 || (errno != EAGAIN && errno != EINTR);
    bytes_received += static_cast<std::size_t>(count);
    return false;
  }
  /// Sends a greeting, which a new connection always takes whole. @return whether it did
  bool send_greeting() {
    is_sent = true;
    return send(socket.get(), &to_send, sizeof to_send, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof to_send;
  }
  [[nodiscard]] bool has_received() const { return bytes_received == sizeof received; }
};

/// The connections that one rank makes at a time.
class Round {
 public:
  Round(int me, std::string secret, const std::vector<std::string>& addresses, const std::vector<int>& partners)
      : me_(me), secret_(std::move(secret)), missing_(partners) {
    for (const int partner : partners) {
      const TcpAddress its = tcp_address_from(addresses[static_cast<std::size_t>(partner)]);
      secrets_.emplace_back(partner, its.secret);
      if (partner < me) continue;
      if (its.tcp == 0) note_failure(partner, "it has no socket");
      for (const std::string& host : its.hosts) call(partner, its, host);
    }
  }

  [[nodiscard]] bool is_done() const { return missing_.empty(); }
  [[nodiscard]] const std::vector<int>& missing() const { return missing_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::vector<Connection>& made() { return made_; }

  /// Waits for the network, at most until `end`, and advances what it can.
  void advance(int listener, Clock::time_point end) {
    std::vector<pollfd> entries{{listener, POLLIN, 0}};
    for (const Attempt& attempt : attempts_) {
      const bool is_connecting = attempt.rank >= 0 && !attempt.is_sent;
      entries.push_back({attempt.socket.get(), static_cast<short>(is_connecting ? POLLOUT : POLLIN), 0});
    }
    if (poll(entries.data(), entries.size(), std::max(milliseconds_until(end), 1)) <= 0) return;
    for (std::size_t i = attempts_.size(); i-- > 0;)
      if (entries[i + 1].revents != 0 && advance(attempts_[i]))
        attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase_if(attempts_, [&](const Attempt& attempt) { return attempt.rank >= 0 && !is_missing(attempt.rank); });
    if (entries.front().revents != 0) accept_some(listener);
  }

 private:
  /// Accepts connections, also of strangers, who are silent: if there are many more than partners, the oldest are
  /// closed.
  void accept_some(int listener) {
    constexpr std::size_t at_a_time = 64;
    const auto is_of_partner = [](const Attempt& attempt) { return attempt.rank >= 0; };
    for (std::size_t accepted = 0; accepted < at_a_time; ++accepted) {
      Descriptor connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const bool has_too_many_files = !connection.open() && (errno == EMFILE || errno == ENFILE);
      if (!connection.open() && !has_too_many_files) return;
      if (connection.open()) attempts_.push_back({.socket = std::move(connection)});
      if (!has_too_many_files && attempts_.size() <= 4 * at_a_time + 2 * secrets_.size()) continue;
      const auto oldest = std::find_if_not(attempts_.begin(), attempts_.end(), is_of_partner);
      if (oldest == attempts_.end()) return;
      attempts_.erase(oldest);
    }
  }
  [[nodiscard]] bool is_missing(int rank) const {
    return std::find(missing_.begin(), missing_.end(), rank) != missing_.end();
  }

  void note_failure(int partner, const std::string& why) {
    if (failure_.empty()) failure_ = "rank " + std::to_string(partner) + ", " + why;
  }

  void call(int partner, const TcpAddress& its, const std::string& host) {
    Descriptor connection = begin_connection(host, its.tcp);
    if (!connection.open()) return note_failure(partner, host + ": " + text_of_errno(errno));
    attempts_.push_back({.rank = partner, .socket = std::move(connection), .to_send = greeting_to(its.secret, me_)});
  }

  /// @return whether the attempt has ended
  bool advance(Attempt& attempt) {
    if (attempt.rank >= 0 && !attempt.is_sent) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error == 0 && attempt.send_greeting()) return false;
      note_failure(attempt.rank, text_of_errno(error));
      return true;
    }
    if (attempt.receive()) return true;
    if (!attempt.has_received()) return false;
    if (attempt.received != greeting_to(secret_, attempt.received.rank)) return true;
    const int rank = attempt.received.rank;
    const bool is_expected = attempt.rank >= 0 ? rank == attempt.rank : rank < me_;
    if (!is_expected || !is_missing(rank)) return true;
    if (attempt.rank < 0) {
      const auto its = std::find_if(secrets_.begin(), secrets_.end(), [&](const auto& s) { return s.first == rank; });
      attempt.to_send = greeting_to(its->second, me_);
      if (!attempt.send_greeting()) return true;
    }
    const int on = 1;
    setsockopt(attempt.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    made_.push_back({rank, std::move(attempt.socket)});
    std::erase(missing_, rank);
    return true;
  }

  int me_;
  std::string secret_;
  std::vector<std::pair<int, std::string>> secrets_;  // of the partners
  std::vector<int> missing_;
  std::vector<Attempt> attempts_;
  std::vector<Connection> made_;
  std::string failure_;
};

/// Ranks that are connected wait in the next exchange for those that are not, so it is well below the group's deadline.
std::chrono::milliseconds time_to_connect(const MpiGroup& group) {
  constexpr std::chrono::milliseconds usual{3000};
  const MpiGroup::Handle& handle = group.handle();
  if (handle.monitor == nullptr) return usual;  // it has no deadline
  return std::min(usual, std::chrono::duration_cast<std::chrono::milliseconds>(handle.deadline / 4));
}

bool has_entries(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator found(folder, error);
  return !error && found != std::filesystem::directory_iterator();
}

}  // namespace

Connector::Connector() : secret_(random_word()) {
  TcpAddress address{.secret = secret_, .hosts = own_addresses()};
  listener_ = open_socket(SOCK_STREAM, "0.0.0.0", address.tcp);
  if (listener_.open()) address_ = to_text(address);
}

std::vector<Connection> Connector::connect(int me, const std::vector<int>& partners,
                                           const std::vector<std::string>& addresses, std::chrono::milliseconds at_most,
                                           std::string& why_not) {
  const Clock::time_point end = Clock::now() + at_most;
  Round round(me, secret_, addresses, partners);
  while (!round.is_done() && Clock::now() < end) round.advance(listener_.get(), end);
  if (!round.is_done()) {
    why_not = round.failure().empty() ? "rank " + std::to_string(round.missing().front()) + ", it does not answer"
                                      : round.failure();
  }
  return std::move(round.made());
}

std::optional<std::vector<Connection>> connect_ranks(const MpiGroup& group, const std::vector<int>& partners,
                                                     std::string& why_not) {
  Connector connector;
  const std::vector<std::string> addresses = all_gather_strings(group, connector.address());
  std::string failure;
  std::vector<Connection> made =
      connector.connect(group.rank().value, partners, addresses, time_to_connect(group), failure);
  if (!failure.empty())
    failure = "rank " + std::to_string(group.rank().value) + " on " + group.host() + " cannot reach " + failure;
  why_not = first_reason(group, failure);
  if (!why_not.empty()) return std::nullopt;
  return made;
}

bool has_rdma() { return has_entries("/sys/class/infiniband") || has_entries("/sys/class/cxi"); }

}  // namespace lockstep
