// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "platform/node_memory/descriptor.hpp"
#include "platform/node_memory/shared_file.hpp"

/// Passing an open file to other processes of this machine and user: through /proc, or over a Unix socket in the
/// abstract namespace, which leaves no file behind. Everything @throws Error{unsupported} or Error{timeout}.
namespace lockstep {

/// The file that another process has open, as /proc shows it: no other process takes part in that, or can hinder it.
/// @return nothing open where /proc does not show it, as to another user or in another PID namespace
Descriptor open_descriptor_of(pid_t process, int descriptor, const FileIdentity& file);

/// Gives an open file to processes that connect to its socket. Every user of the machine can connect to it, and could
/// fill the queue of those who wait; so a thread takes up all connections as they come, and closes those of other
/// users. Only who shows the nonce gets the file: the user alone is no proof in a user namespace, where all users that
/// have no name in it appear as one.
class DescriptorSender {
 public:
  /// @param descriptor  stays open as long as the sender lives
  /// @param nonce       known to the receivers alone
  DescriptorSender(int descriptor, std::uint64_t nonce);
  DescriptorSender(const DescriptorSender&) = delete;
  DescriptorSender& operator=(const DescriptorSender&) = delete;
  ~DescriptorSender();

  /// Where receivers connect to, different for each sender.
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
  std::vector<Descriptor> connections_;  // that have not shown the nonce yet, the oldest first
  std::thread thread_;
};

/// @return the file that the sender of this name gives to those who know the nonce. @post it may be any file: who maps
///         it checks which one it is (`SharedFile`)
Descriptor receive_descriptor(const std::string& name, std::uint64_t nonce, std::chrono::milliseconds deadline);

}  // namespace lockstep
