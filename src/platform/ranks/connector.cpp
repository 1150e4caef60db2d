// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/connector.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/rank_link.hpp"
#include "platform/tcp/greeting.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

std::string text_of_errno(int number) { return std::generic_category().message(number); }

/// A connection of this rank to a partner, whose greetings have not all been exchanged.
struct Attempt {
  int rank;
  Arrival arrival;
  Greeting to_send;
  bool is_sent = false;
};

/// The connections that one rank makes at a time.
class Round {
 public:
  Round(int me, std::string secret, bool has_job_secret, const std::vector<std::string>& addresses,
        const std::vector<int>& partners)
      : me_(me),
        secret_(std::move(secret)),
        missing_(partners),
        arrivals_(secret_, most_strangers + 2 * partners.size()) {
    for (const int partner : partners) {
      TcpAddress its = tcp_address_from(addresses[static_cast<std::size_t>(partner)]);
      if ((its.secret == secret_of_job) != has_job_secret)
        note_failure(partner, "only one of the two has LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE: set it for all ranks");
      if (its.secret == secret_of_job) its.secret = secret_;
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
  void advance(const std::vector<Descriptor>& listeners, Clock::time_point end) {
    std::vector<pollfd> entries;
    for (const Descriptor& listener : listeners) entries.push_back({listener.get(), POLLIN, 0});
    for (const Attempt& attempt : attempts_)
      entries.push_back({attempt.arrival.socket(), static_cast<short>(attempt.is_sent ? POLLIN : POLLOUT), 0});
    arrivals_.add_to(entries);
    if (poll(entries.data(), entries.size(), std::max(milliseconds_until(end), 1)) <= 0) return;
    for (std::size_t i = attempts_.size(); i-- > 0;)
      if (entries[i + listeners.size()].revents != 0 && advance(attempts_[i]))
        attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase_if(attempts_, [&](const Attempt& attempt) { return !is_missing(attempt.rank); });
    for (std::size_t i = 0; i < listeners.size(); ++i)
      if (entries[i].revents != 0) arrivals_.accept_from(listeners[i].get());
    for (Arrival& arrival : arrivals_.those_who_know()) answer(arrival);
  }

 private:
  static constexpr std::size_t most_strangers = 256;

  [[nodiscard]] bool is_missing(int rank) const {
    return std::find(missing_.begin(), missing_.end(), rank) != missing_.end();
  }

  void note_failure(int partner, const std::string& why) {
    if (failure_.empty()) failure_ = "rank " + std::to_string(partner) + ", " + why;
  }

  void call(int partner, const TcpAddress& its, const std::string& host) {
    Descriptor connection = begin_connection(host, its.tcp);
    if (!connection.open()) return note_failure(partner, host + ": " + text_of_errno(errno));
    attempts_.push_back({partner, Arrival(std::move(connection)), greeting_to(its.secret, Purpose::connection, me_)});
  }

  /// @return whether the attempt has ended
  bool advance(Attempt& attempt) {
    Arrival& arrival = attempt.arrival;
    if (!attempt.is_sent) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(arrival.socket(), SOL_SOCKET, SO_ERROR, &error, &length);
      attempt.is_sent = true;
      if (error == 0 && send_greeting(arrival.socket(), attempt.to_send)) return false;
      note_failure(attempt.rank, text_of_errno(error));
      return true;
    }
    if (arrival.receive()) return true;
    if (!arrival.is_complete()) return false;
    if (knows(arrival.greeting(), secret_) && arrival.greeting().rank == attempt.rank) keep(arrival);
    return true;
  }

  /// Completes a connection that a partner with a lower rank has made.
  void answer(Arrival& arrival) {
    const int rank = arrival.greeting().rank;
    if (rank >= me_ || !is_missing(rank) || arrival.greeting().purpose != Purpose::connection) return;
    const auto its = std::find_if(secrets_.begin(), secrets_.end(), [&](const auto& s) { return s.first == rank; });
    if (send_greeting(arrival.socket(), greeting_to(its->second, Purpose::connection, me_))) keep(arrival);
  }

  void keep(Arrival& arrival) {
    const int on = 1;
    setsockopt(arrival.socket(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::erase(missing_, arrival.greeting().rank);
    made_.push_back({arrival.greeting().rank, ConnectedSocket(arrival.take())});
  }

  int me_;
  std::string secret_;
  std::vector<std::pair<int, std::string>> secrets_;  // of the partners
  std::vector<int> missing_;
  Arrivals arrivals_;
  std::vector<Attempt> attempts_;
  std::vector<Connection> made_;
  std::string failure_;
};

/// Ranks that are connected wait in the next exchange for those that are not, so it is well below the group's deadline.
std::chrono::milliseconds time_to_connect(const RankSet& group) {
  constexpr std::chrono::milliseconds usual{3000};
  const RankSet::Link& link = group.link();
  if (link.tasks == nullptr) return usual;  // it has no deadline
  return std::min(usual, std::chrono::duration_cast<std::chrono::milliseconds>(link.deadline / 4));
}

bool has_entries(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator found(folder, error);
  return !error && found != std::filesystem::directory_iterator();
}

}  // namespace

Connector::Connector() : secret_(job_secret().value_or(random_word())) {
  const OwnAddresses own = own_addresses();
  // The job's secret is not told: ranks that belong to the job know it.
  TcpAddress address{.secret = job_secret() ? std::string(secret_of_job) : secret_, .hosts = own.hosts};
  listeners_ = open_sockets(SOCK_STREAM, own.are_chosen ? own.hosts : std::vector<std::string>(), address.tcp);
  if (!listeners_.empty()) address_ = to_text(address);
}

std::vector<Connection> Connector::connect(int me, const std::vector<int>& partners,
                                           const std::vector<std::string>& addresses, std::chrono::milliseconds at_most,
                                           std::string& why_not) {
  const Clock::time_point end = Clock::now() + at_most;
  const bool has_job_secret = tcp_address_from(address_).secret == secret_of_job;
  Round round(me, secret_, has_job_secret, addresses, partners);
  while (!round.is_done() && Clock::now() < end) round.advance(listeners_, end);
  if (!round.is_done()) {
    why_not = round.failure().empty() ? "rank " + std::to_string(round.missing().front()) + ", it does not answer"
                                      : round.failure();
  }
  return std::move(round.made());
}

std::optional<std::vector<Connection>> connect_ranks(const RankSet& group, const std::vector<int>& partners,
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
