// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "emulated_gpu/nccl/shared_rings.hpp"
#include "emulated_gpu/nccl/socket.hpp"

namespace emulated_gpu {

/// An ordered stream of bytes between two ranks of a communicator, without waiting. It uses memory that they share, if
/// there is any; then the socket only shows whether the peer is alive.
class Connection {
 public:
  explicit Connection(Socket socket, std::unique_ptr<SharedRings> memory = nullptr)
      : socket_(std::move(socket)), memory_(std::move(memory)) {}

  /// Queues bytes to send. @pre can_take
  void put(const std::byte* data, std::size_t bytes);
  [[nodiscard]] bool can_take() const { return out_.size() - sent_ < most_unsent; }
  /// Returns the number of received bytes that were not taken; valid until the next move().
  [[nodiscard]] std::size_t available() const { return in_.size() - taken_; }
  [[nodiscard]] const std::byte* front() const { return in_.data() + taken_; }
  void take(std::size_t bytes) { taken_ += bytes; }
  /// Sends and receives as much as possible. @return whether anything moved
  bool move();
  [[nodiscard]] bool all_sent() const { return sent_ == out_.size(); }
  /// Returns whether the peer is gone. The data that it had sent are still available.
  [[nodiscard]] bool is_broken() const { return broken_; }
  [[nodiscard]] bool shares_memory() const { return memory_ != nullptr; }

 private:
  static constexpr std::size_t most_unsent = std::size_t{1} << 20;
  static constexpr std::size_t most_untaken = std::size_t{4} << 20;

  bool send_some();
  bool receive_some();
  /// Like recv and send: returns 0 if the peer has gone, −1 if nothing can be done now. They record failures.
  std::ptrdiff_t receive(std::byte* to, std::size_t bytes);
  std::ptrdiff_t send(const std::byte* from, std::size_t bytes);

  Socket socket_;
  std::unique_ptr<SharedRings> memory_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::vector<std::byte> in_;
  std::size_t taken_ = 0;
  bool broken_ = false;
};

/// Returns the address at which peers reach the ranks of this process.
sockaddr_in address_for_peers();
/// Connects two ranks when both request it: the lower one connects, the other one accepts.
/// @param name          of the communicator
/// @param is_same_host  the same on both sides: the lower rank offers memory, unless its NCCL_SHM_DISABLE is 1
/// @return null if `stop` returned true
std::unique_ptr<Connection> connect_pair(std::uint64_t name, int me, int peer, const sockaddr_in& address_of_peer,
                                         bool is_same_host, const std::function<bool()>& stop);

}  // namespace emulated_gpu
