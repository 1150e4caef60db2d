// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text_file.hpp"

namespace lockstep {

/// Answers questions of other processes of the job over TCP, and of processes of this host over a Unix socket, while
/// MPI may be stuck. A connection carries one question, a line, and its answer, up to the end of the connection.
///
/// It also sends heartbeats: short UDP datagrams to one other rank, which keeps the last one of each sender.
class SideChannel {
 public:
  /// Opens the sockets. What cannot be opened is left out, and the address says so.
  SideChannel();

  /// Where others reach this one, and the secret word that their questions begin with; one line of text.
  [[nodiscard]] const std::string& address() const { return address_; }

  /// Serves for at most `time`; returns earlier after wake(). @param answer  is given a question, and whether it came
  /// over the Unix socket, from a process of the same user
  void serve(std::chrono::milliseconds time, const std::function<std::string(const std::string&, bool)>& answer);
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
  void receive_heartbeats();

  Descriptor tcp_;
  Descriptor udp_;
  Descriptor unix_;
  Descriptor wake_;
  std::string secret_;
  std::string address_;
  std::map<std::string, Heartbeat> heartbeats_;
};

/// The first few IPv4 addresses of this host, without that of the loopback if there are others.
std::vector<std::string> own_addresses();

/// Asks several processes the same question at once.
/// @param addresses  their `SideChannel::address()`; an empty one is not asked
/// @return the answers, in this order; nothing from those that did not answer within `time`
std::vector<std::optional<std::string>> ask_all(const std::vector<std::string>& addresses, const std::string& question,
                                                std::chrono::milliseconds time);

/// The processes of this host that have a side channel, by their ids.
std::vector<int> processes_with_side_channel();
/// Asks one of them over its Unix socket. @return nothing if it does not answer within `time`
std::optional<std::string> ask_process(int process, const std::string& question, std::chrono::milliseconds time);

}  // namespace lockstep
