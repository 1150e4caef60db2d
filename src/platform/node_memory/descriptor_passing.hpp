// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "platform/node_memory/mapping.hpp"

/// Passes an open file to other processes of this machine and user: through /proc, or over a Unix socket in
/// the abstract namespace, which leaves no file behind. Every function @throws Error{unsupported} or Error{timeout}.
namespace lockstep {

/// The address of a name in the abstract namespace: a zero byte, followed by the name without a terminating zero.
std::pair<sockaddr_un, socklen_t> unix_address(std::string_view name);
/// Whether a Unix socket belongs to a process of the same user, at the other end of a connection or of a listener.
bool is_of_this_user(int connection);

/// Opens a file that another process has open, through /proc. No other process takes part in this, or can interfere.
/// @return an empty descriptor if /proc does not show the file, as to another user or in another PID namespace
Descriptor open_descriptor_of(pid_t process, int descriptor, const FileIdentity& file);

/// Gives an open file to processes that connect to its socket. Every user of the machine can connect, and could fill
/// the queue of pending connections, so a thread accepts all connections when they arrive and closes those of other
/// users. Only a process that sends the nonce gets the file. The user is no sufficient proof in a user namespace, where
/// all users without a name in it appear as one.
class DescriptorSender {
 public:
  /// @param descriptor  must stay open while the sender exists
  /// @param nonce       a number that only the receivers know
  DescriptorSender(int descriptor, std::uint64_t nonce);
  DescriptorSender(const DescriptorSender&) = delete;
  DescriptorSender& operator=(const DescriptorSender&) = delete;
  ~DescriptorSender();

  /// The name to which receivers connect, different for each sender.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  void serve();
  void accept_some();
  void answer_those_who_have_written();

  Descriptor socket_;
  Descriptor stop_;  // an eventfd
  std::string name_;
  int descriptor_;
  std::uint64_t nonce_;
  std::vector<Descriptor> connections_;  // connections that have not sent the nonce yet, the oldest first
  std::thread thread_;
};

/// @return the file that the sender of this name gives to processes that know the nonce. @post it may be any file: the
///         code that maps it checks its identity (`SharedFile`)
Descriptor receive_descriptor(const std::string& name, std::uint64_t nonce, std::chrono::milliseconds deadline);

}  // namespace lockstep
