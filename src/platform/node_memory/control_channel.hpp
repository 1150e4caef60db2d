// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep {

/// Through which the ranks of one communicator tell each other that one of them takes part no more, and why.
///
/// Who raises the alarm writes a word, with the reason, into memory that its node's ranks share. Each of them that sees
/// it sends it to all ranks of other nodes, because the one that raised it may never get round to it; who gets such a
/// message raises the alarm on its own node. The first alarm on a node counts there.
///
///   raise() ─► the node's word ─► heard() on each rank of the node
///                  ▲       └─ tend() ─► messages ─┐
///                  └────────── tend() ◄───────────┘ on each rank of another node
class ControlChannel {
 public:
  /// Carries texts to the ranks that share no memory with this one, on one thread at a time.
  class Post {
   public:
    Post() = default;
    Post(const Post&) = delete;
    Post& operator=(const Post&) = delete;
    virtual ~Post() = default;
    /// To each of these ranks, without waiting. @throws Error{transport}
    virtual void send(const std::vector<int>& ranks, const std::string& text) = 0;
    /// What has come, if anything has. @throws Error{transport}
    virtual std::optional<std::string> receive() = 0;
    /// Collective; nothing has been sent. @throws Error{transport}
    virtual void close() = 0;
  };

  /// Who this rank is in the group, and who shares memory with it: the word's ranks, in their order.
  struct Place {
    Rank rank;
    int ranks = 1;
    std::string host;
    std::vector<int> node;
  };

  /// Bytes that the control area of each rank of the word needs.
  static constexpr Bytes control_bytes{sizeof(std::atomic<std::uint64_t>)};

  /// @param word  of this communicator alone, of the ranks of this node (this one only, where it shares none)
  /// @param post  null where all ranks share the word
  ControlChannel(Place place, std::shared_ptr<NodeMemory> word, std::unique_ptr<Post> post);

  /// Tells everybody. It writes to memory and does not communicate, so a destructor may do it, and any thread, as long
  /// as none closes the channel meanwhile. What this rank said first stays.
  /// @param peers  at fault, or waited for, as far as it is known
  void raise(ErrorCode code, std::string_view reason, const std::vector<int>& peers) noexcept;
  /// The same for an error of this rank. Nothing where it is the consequence of what others have told.
  void raise(const std::exception_ptr& error) noexcept;

  /// The alarm, if this rank knows of one, as the error that operations of this rank end with: it names the rank, host
  /// and reason, and is a consequence (`Error::as_consequence`) unless this rank raised it. Its peers are the rank that
  /// raised it and those that this one named, without the rank that hears. A load where there is none.
  [[nodiscard]] std::optional<Error> heard() const {
    const std::optional<LostPeer> alarm = word_->given_up();
    if (!alarm) return std::nullopt;
    return error_of(*alarm);
  }
  /// Error{mismatch} if a rank of this node has closed the communicator after fewer operations than these.
  [[nodiscard]] std::optional<Error> early_close(std::uint64_t operations) const;

  /// Sends and receives what there is. To be called every few milliseconds, by the thread that owns the communicator
  /// or its progress thread. @throws Error{transport}
  void tend();
  /// Whether there are ranks that only messages reach.
  [[nodiscard]] bool has_post() const { return post_ != nullptr; }

  /// Tells the ranks of this node that this one closes the communicator, and in how many operations it took part.
  void leave(std::uint64_t operations) noexcept;
  /// Collective, without an alarm and after leave(). @throws Error{transport}
  void close();

 private:
  [[nodiscard]] Error error_of(const LostPeer& alarm) const;
  [[nodiscard]] std::atomic<std::uint64_t>& closing() const;

  Place place_;
  std::shared_ptr<NodeMemory> word_;
  std::unique_ptr<Post> post_;
  std::vector<int> elsewhere_;  // the ranks that share no memory with this one
  bool has_told_ = false;       // them
};

}  // namespace lockstep
