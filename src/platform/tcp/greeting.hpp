// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_file.hpp"

namespace lockstep {

/// Why a process connects to another one of its job.
enum class Purpose : std::uint32_t {
  connection,    ///< to exchange messages between two ranks; the other side answers with a greeting of its own
  rank_report,   ///< to ask what the rank does; the answer is text, up to the end of the connection
  job_table,     ///< to ask which ranks the job has; likewise
  control_text,  ///< to send a text of a control channel; there is no answer
};

/// The first bytes on a connection.
struct Greeting {
  std::array<char, 32> secret{};  ///< the receiver's
  std::int32_t rank = -1;         ///< of the sender, if it is one
  Purpose purpose = Purpose::connection;
};
/// @param secret  the receiver's; empty for a receiver that asks for none
Greeting greeting_to(std::string_view secret, Purpose purpose, int own_rank = -1);

/// Whether two secrets are equal. The time that this takes says nothing about them but their length.
bool is_same_secret(std::string_view a, std::string_view b);
/// Whether the sender of the greeting knows the secret.
bool knows(const Greeting& greeting, std::string_view secret);

/// Sends a greeting, which a new connection always takes whole. @return whether it did
bool send_greeting(int connection, const Greeting& greeting);

/// A connection on which a greeting is expected.
class Arrival {
 public:
  explicit Arrival(Descriptor socket) : socket_(std::move(socket)) {}

  /// Receives what has come. @return whether the connection is broken
  bool receive();
  [[nodiscard]] bool is_complete() const { return received_ == sizeof greeting_; }
  [[nodiscard]] const Greeting& greeting() const { return greeting_; }  ///< @pre is_complete()
  [[nodiscard]] int socket() const { return socket_.get(); }
  Descriptor take() { return std::move(socket_); }

 private:
  Descriptor socket_;
  Greeting greeting_;
  std::size_t received_ = 0;
};

/// Connections that have been accepted and have not shown yet that they know the secret. Anyone who reaches a listener
/// can connect, any number of times, so they wait side by side, each for at most 2 s, and when there are many, the
/// oldest is closed: one who knows the secret says so at once.
class Arrivals {
 public:
  /// @param most  the number that may wait
  explicit Arrivals(std::string secret, std::size_t most = 256) : secret_(std::move(secret)), most_(most) {}

  /// Accepts connections, also if there are too many, so that those of strangers do not fill the queue.
  /// @param at_most  in this call
  void accept_from(int listener, std::size_t at_most = 64);
  /// Returns those who know the secret. Those who do not, or took too long, are closed.
  std::vector<Arrival> those_who_know();
  /// Adds what poll() waits for.
  void add_to(std::vector<pollfd>& entries) const;
  /// When the oldest has waited long enough; the latest time there is if there is none.
  [[nodiscard]] std::chrono::steady_clock::time_point next_end() const;

 private:
  struct Waiting {
    Arrival arrival;
    std::chrono::steady_clock::time_point end;
  };
  std::string secret_;
  std::size_t most_;
  std::vector<Waiting> waiting_;  // the oldest first
};

}  // namespace lockstep
