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
  int line;
  Arrival arrival;
  Greeting to_send;
  Clock::time_point end;  // when it has taken too long to reach the host
  bool is_sent = false;
};

/// A connection that is to be made.
struct Wanted {
  int line;
  Clock::time_point next_call;  // never, if the other one has to call
  std::string failure;          // of the last call; there is no other call unless it reached a process
  bool is_reached = false;

  [[nodiscard]] bool is_given_up() const { return !failure.empty() && !is_reached; }
};

constexpr std::size_t most_strangers = 256;
constexpr std::chrono::milliseconds time_to_reach{3000};
// A higher rank waits so long for the call of the lower one before it calls itself, and between its calls.
constexpr std::chrono::milliseconds patience{5};

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

/// What a rank knows of its connections to others. A line is a lane of another rank: lane + lanes · rank.
class Connector::Calls {
 public:
  Calls(int me, std::string secret, bool has_job_secret, const std::vector<std::string>& addresses,
        std::size_t partners, int lanes)
      : me_(me),
        secret_(std::move(secret)),
        has_job_secret_(has_job_secret),
        addresses_(addresses),
        lanes_(lanes),
        is_connected_(addresses.size() * static_cast<std::size_t>(lanes)),
        arrivals_(secret_, most_strangers + 2 * partners * static_cast<std::size_t>(lanes)) {}

  void want(int rank, int lane, Clock::time_point first_call) {
    const int line = line_of(rank, lane);
    if (is_connected_[static_cast<std::size_t>(line)] || wanted(line) != nullptr) return;
    wanted_.push_back({line, first_call, {}});
    if ((address_of(line).secret == secret_of_job) == has_job_secret_) return;
    note_failure(line, "only one of the two has LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE: set it for all ranks");
  }

  [[nodiscard]] const std::vector<Wanted>& wanted() const { return wanted_; }
  [[nodiscard]] std::string failure_of(int rank, int lane) const {
    const int line = line_of(rank, lane);
    const auto it = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& one) { return one.line == line; });
    return it == wanted_.end() || !it->is_given_up() || is_calling(line) ? std::string() : it->failure;
  }
  [[nodiscard]] bool is_lower_than(int rank) const { return me_ < rank; }
  [[nodiscard]] bool has_all() const {
    return std::count(is_connected_.begin(), is_connected_.end(), true) + lanes_ == std::ssize(is_connected_);
  }

  void add_to(std::vector<pollfd>& entries, const std::vector<ConnectedSocket>& listeners) const {
    for (const ConnectedSocket& listener : listeners) entries.push_back({listener.get(), POLLIN, 0});
    for (const Attempt& attempt : attempts_)
      entries.push_back({attempt.arrival.socket(), static_cast<short>(attempt.is_sent ? POLLIN : POLLOUT), 0});
    arrivals_.add_to(entries);
  }

  /// Waits for the network, at most until `end`, and advances what it can. @return the connections that it has made
  std::vector<Connection> advance(const std::vector<ConnectedSocket>& listeners, Clock::time_point end) {
    accept_from(listeners);  // a call that has come makes one of this rank's own superfluous
    if (!made_.empty()) end = Clock::now();
    for (Wanted& one : wanted_) call_if_due(one, end);
    std::vector<pollfd> entries;
    add_to(entries, listeners);
    if (poll(entries.data(), entries.size(), milliseconds_until(end)) > 0) {
      for (std::size_t i = attempts_.size(); i-- > 0;)
        if (entries[i + listeners.size()].revents != 0 && advance(attempts_[i]))
          attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
      accept_from(listeners);
    }
    std::erase_if(attempts_,
                  [&](const Attempt& attempt) { return wanted(attempt.line) == nullptr || is_late(attempt); });
    return std::exchange(made_, {});
  }

 private:
  [[nodiscard]] int line_of(int rank, int lane) const { return rank * lanes_ + lane; }

  [[nodiscard]] Wanted* wanted(int line) {
    const auto it = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& one) { return one.line == line; });
    return it == wanted_.end() ? nullptr : &*it;
  }
  [[nodiscard]] bool is_calling(int line) const {
    return std::any_of(attempts_.begin(), attempts_.end(), [&](const Attempt& one) { return one.line == line; });
  }

  void note_failure(int line, const std::string& why) {
    Wanted* const one = wanted(line);
    if (one != nullptr && one->failure.empty()) one->failure = why;
  }

  [[nodiscard]] TcpAddress address_of(int line) const {
    return tcp_address_from(addresses_[static_cast<std::size_t>(line / lanes_)]);
  }
  /// It names the line as the other rank counts it.
  [[nodiscard]] Greeting greeting_on(int line) const {
    const std::string its_secret = address_of(line).secret;
    return greeting_to(its_secret == secret_of_job ? secret_ : its_secret, Purpose::connection,
                       line_of(me_, line % lanes_));
  }

  /// Calls a rank at all of its addresses, unless that is under way, not due or in vain.
  /// @param next  set to the time of its next call, if that is earlier
  void call_if_due(Wanted& whom, Clock::time_point& next) {
    if (is_calling(whom.line) || whom.is_given_up()) return;
    if (Clock::now() < whom.next_call) {
      next = std::min(next, whom.next_call);
      return;
    }
    whom.next_call = Clock::now() + patience;
    whom.failure.clear();
    whom.is_reached = false;
    const TcpAddress its = address_of(whom.line);
    if (its.tcp == 0) whom.failure = "it has no socket";
    for (const std::string& host : its.hosts) {
      Descriptor connection = begin_connection(host, its.tcp);
      if (connection.open()) {
        attempts_.push_back(
            {whom.line, Arrival(std::move(connection)), greeting_on(whom.line), Clock::now() + time_to_reach});
      } else {
        note_failure(whom.line, host + ": " + text_of_errno(errno));
      }
    }
  }

  /// Whether the host has not answered in time.
  bool is_late(const Attempt& attempt) {
    if (attempt.is_sent || Clock::now() < attempt.end) return false;
    note_failure(attempt.line, "its host does not answer");
    return true;
  }

  /// @return whether the attempt has ended
  bool advance(Attempt& attempt) {
    Arrival& arrival = attempt.arrival;
    if (!attempt.is_sent) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(arrival.socket(), SOL_SOCKET, SO_ERROR, &error, &length);
      attempt.is_sent = true;
      if (error == 0 && send_greeting(arrival.socket(), attempt.to_send)) {
        if (Wanted* const one = wanted(attempt.line)) one->is_reached = true;
        return false;
      }
      note_failure(attempt.line, text_of_errno(error));
      return true;
    }
    if (arrival.receive()) return true;
    if (!arrival.is_complete()) return false;
    if (knows(arrival.greeting(), secret_) && arrival.greeting().rank == attempt.line) keep(arrival);
    return true;
  }

  void accept_from(const std::vector<ConnectedSocket>& listeners) {
    for (const ConnectedSocket& listener : listeners) arrivals_.accept_from(listener.get());
    for (Arrival& arrival : arrivals_.those_who_know()) answer(arrival);
  }

  /// Completes a connection that another rank has begun.
  void answer(Arrival& arrival) {
    const int line = arrival.greeting().rank;
    if (line < 0 || line / lanes_ == me_ || static_cast<std::size_t>(line) >= is_connected_.size()) return;
    if (arrival.greeting().purpose != Purpose::connection || is_connected_[static_cast<std::size_t>(line)]) return;
    if (line / lanes_ > me_ && is_calling(line)) return;
    if (send_greeting(arrival.socket(), greeting_on(line))) keep(arrival);
  }

  void keep(Arrival& arrival) {
    const int line = arrival.greeting().rank;
    const int on = 1;
    setsockopt(arrival.socket(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    is_connected_[static_cast<std::size_t>(line)] = true;
    std::erase_if(wanted_, [&](const Wanted& one) { return one.line == line; });
    made_.push_back({line / lanes_, line % lanes_, ConnectedSocket(arrival.take())});
  }

  int me_;
  std::string secret_;
  bool has_job_secret_;
  std::vector<std::string> addresses_;
  int lanes_;
  std::vector<bool> is_connected_;  // by line
  std::vector<Wanted> wanted_;
  Arrivals arrivals_;
  std::vector<Attempt> attempts_;
  std::vector<Connection> made_;
};

Connector::Connector() = default;
Connector::~Connector() = default;

std::vector<Connection> Connector::connect(int me, const std::vector<int>& partners,
                                           const std::vector<std::string>& addresses, std::chrono::milliseconds at_most,
                                           std::string& why_not, int lanes) {
  const auto begin = Clock::now();
  const bool has_job_secret = tcp_address_from(address()).secret == secret_of_job;
  calls_ = std::make_unique<Calls>(me, listener_.secret(), has_job_secret, addresses, partners.size(), lanes);
  for (const int partner : partners)
    for (int lane = 0; lane < lanes; ++lane)
      calls_->want(partner, lane, partner > me ? begin : Clock::time_point::max());
  std::vector<Connection> made;
  while (!calls_->wanted().empty() && Clock::now() < begin + at_most)
    for (Connection& one : calls_->advance(listener_.sockets(), begin + at_most)) made.push_back(std::move(one));
  if (calls_->wanted().empty()) return made;
  const Wanted& missing = calls_->wanted().front();
  const std::string& why = missing.failure.empty() ? "it does not answer" : missing.failure;
  why_not = "rank " + std::to_string(missing.line / lanes) + ", " + why;
  return made;
}

void Connector::want(int rank, int lane) {
  const auto now = Clock::now();
  calls_->want(rank, lane, calls_->is_lower_than(rank) ? now : now + patience);
}

std::vector<Connection> Connector::advance() {
  if (listener_.sockets().empty()) return {};
  std::vector<Connection> made = calls_->advance(listener_.sockets(), Clock::now());
  if (calls_->has_all()) listener_.close();
  return made;
}

void Connector::add_to(std::vector<pollfd>& entries) const { calls_->add_to(entries, listener_.sockets()); }

std::string Connector::failure_of(int rank, int lane) const { return calls_->failure_of(rank, lane); }

std::optional<std::vector<Connection>> connect_ranks(const RankSet& group, Connector& connector,
                                                     const std::vector<int>& partners, std::string& why_not,
                                                     int lanes) {
  const std::vector<std::string> addresses = group.exchange(connector.address());
  std::string failure;
  std::vector<Connection> made =
      connector.connect(group.rank().value, partners, addresses, time_to_connect(group), failure, lanes);
  if (!failure.empty())
    failure = "rank " + std::to_string(group.rank().value) + " on " + group.host() + " cannot reach " + failure;
  why_not = first_reason(group, failure);
  if (!why_not.empty()) return std::nullopt;
  return made;
}

std::vector<Connection> require_connections(const RankSet& group, Connector& connector,
                                            const std::vector<int>& partners, int lanes) {
  std::string why_not;
  auto connections = connect_ranks(group, connector, partners, why_not, lanes);
  if (connections) return *std::move(connections);
  throw Error(ErrorCode::transport, "the ranks cannot be connected: " + why_not,
              {.rank = group.rank().value, .host = group.host()})
      .on_every_rank();
}

bool has_rdma() { return has_entries("/sys/class/infiniband") || has_entries("/sys/class/cxi"); }

}  // namespace lockstep
