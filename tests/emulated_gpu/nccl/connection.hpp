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

/// Bytes in order between two ranks of a communicator, without waiting: through memory that they share, if there is
/// any. Then the socket only tells whether the peer is there.
class Connection {
 public:
  explicit Connection(Socket socket, std::unique_ptr<SharedRings> memory = nullptr)
      : socket_(std::move(socket)), memory_(std::move(memory)) {}

  /// Takes note of bytes that are to be sent. @pre can_take
  void put(const std::byte* data, std::size_t bytes);
  [[nodiscard]] bool can_take() const { return out_.size() - sent_ < most_unsent; }
  /// Bytes that have come and not been taken; valid until the next move().
  [[nodiscard]] std::size_t available() const { return in_.size() - taken_; }
  [[nodiscard]] const std::byte* front() const { return in_.data() + taken_; }
  void take(std::size_t bytes) { taken_ += bytes; }
  /// Sends and receives what can be. @return whether anything was
  bool move();
  [[nodiscard]] bool all_sent() const { return sent_ == out_.size(); }
  /// Whether the peer is gone. What it had sent is there still.
  [[nodiscard]] bool is_broken() const { return broken_; }
  [[nodiscard]] bool shares_memory() const { return memory_ != nullptr; }

 private:
  static constexpr std::size_t most_unsent = std::size_t{1} << 20;
  static constexpr std::size_t most_untaken = std::size_t{4} << 20;

  bool send_some();
  bool receive_some();
  /// As recv and send do: 0 where the peer has gone, −1 where nothing can be done now. They note what has gone wrong.
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

/// Where the ranks of this process are reached by their peers.
sockaddr_in address_for_peers();
/// The connection of two ranks, made when both ask for it: the lower one calls, the other one is called.
/// @param name          of the communicator
/// @param is_same_host  on both sides: the lower one offers memory, unless its NCCL_SHM_DISABLE is 1
/// @return null if `stop` said so
std::unique_ptr<Connection> connect_pair(std::uint64_t name, int me, int peer, const sockaddr_in& address_of_peer,
                                         bool is_same_host, const std::function<bool()>& stop);

}  // namespace emulated_gpu
