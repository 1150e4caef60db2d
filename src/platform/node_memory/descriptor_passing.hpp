// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "platform/node_memory/descriptor.hpp"

/// Passing an open file to other processes of this machine (and network namespace) and user, over a Unix socket in the
/// abstract namespace: it has no file that could be left behind. Everything @throws Error{unsupported} or
/// Error{timeout}.
namespace lockstep {

class DescriptorSender {
 public:
  /// @param receivers  how many will connect; they can from now on
  explicit DescriptorSender(int receivers);

  /// Where receivers connect to; different for each sender.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Gives `descriptor` to every receiver. Other users' processes are turned away.
  void send(int descriptor, std::chrono::milliseconds deadline);

 private:
  Descriptor socket_;
  std::string name_;
  int receivers_;
};

/// @return a connection, from which receive_descriptor() gets what the sender will send
Descriptor connect_to_sender(const std::string& name, std::chrono::milliseconds deadline);

Descriptor receive_descriptor(const Descriptor& connection, std::chrono::milliseconds deadline);

}  // namespace lockstep
