// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text_file.hpp"
#include "platform/tcp/connected_socket.hpp"
#include "platform/tcp/greeting.hpp"

namespace lockstep {

/// Answers questions of other processes of the job over TCP, and of processes of this host over a Unix socket, while
/// MPI may be stuck. A connection carries a greeting, whose purpose is the question, and the answer, up to the end of
/// the connection. Over TCP nothing is answered without the secret word. If all ranks are on this
/// host, only its processes reach the port; otherwise it listens on the interfaces of `InterfaceChoice`.
/// What is sent is not encrypted.
///
/// It also sends heartbeats: short UDP datagrams to one other rank, which keeps the last one of each sender.
class SideChannel {
 public:
  /// Opens the sockets. What cannot be opened is left out, and the address says so.
  /// @param is_local  whether all who ask are on this host. @throws as job_secret() and own_addresses()
  explicit SideChannel(bool is_local);

  /// Where others reach this one, and the secret word of their greetings; one line of text.
  [[nodiscard]] const std::string& address() const { return address_; }

  /// Is given a question, and whether it came over the Unix socket, from a process of the same user.
  using Answer = std::function<std::string(Purpose, bool)>;
  /// Serves for at most `time`; returns earlier after wake().
  void serve(std::chrono::milliseconds time, const Answer& answer);
  /// Makes serve() return. Any thread may call it.
  void wake() const;

  /// Sends a heartbeat. @param to  the receiver's address. Errors are ignored.
  void send_heartbeat(const std::string& to, const std::string& text) const;
  /// The last heartbeat of each sender, by its first word, and when it came.
  struct Heartbeat {
    std::string text;
    std::chrono::steady_clock::time_point received;
  };
  [[nodiscard]] const std::map<std::string, Heartbeat>& heartbeats() const { return heartbeats_; }

 private:
  void receive_heartbeats(int socket);
  void answer_those_who_ask(const Answer& answer);

  std::vector<ConnectedSocket> tcp_;
  std::vector<ConnectedSocket> udp_;
  ConnectedSocket unix_;
  Descriptor wake_;
  std::string secret_;
  std::string address_;
  Arrivals askers_;
  Arrivals local_askers_;
  std::map<std::string, Heartbeat> heartbeats_;
};

/// Asks several processes the same question at once.
/// @param addresses  their `SideChannel::address()`; an empty one is not asked
/// @return the answers, in this order; nothing from those that did not answer within `time`
std::vector<std::optional<std::string>> ask_all(const std::vector<std::string>& addresses, Purpose question,
                                                std::chrono::milliseconds time);

/// What a process of this host has answered.
struct LocalAnswer {
  int process;
  std::string answer;
};

/// Asks the processes of this host and this user that have a side channel, all at once, over their Unix sockets.
/// @return the answers that came within `time`, by process
std::vector<LocalAnswer> ask_this_host(Purpose question, std::chrono::milliseconds time);

}  // namespace lockstep
