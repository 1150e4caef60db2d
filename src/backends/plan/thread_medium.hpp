// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/plan/medium.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// The mailboxes of a group of threads, one per receiver. A message is a pointer into the sender's memory until the
/// receiver has copied it, so a send completes exactly when it has been received.
class Mailboxes {
 public:
  struct Letter {
    MessageTag tag;
    const void* data;
    Bytes bytes;
    std::shared_ptr<std::atomic<bool>> taken;
  };

  explicit Mailboxes(int ranks) : boxes_(static_cast<std::size_t>(ranks)) {}
  void put(Rank from, Rank to, Letter letter);
  /// Copies the oldest letter to `data` if there is one. @throws Error{mismatch} if it has another size
  bool take(Rank from, Rank to, const MessageTag& tag, void* data, Bytes bytes);

 private:
  struct Box {
    std::mutex mutex;
    std::map<std::pair<int, int>, std::deque<Letter>> letters;  // by sender and channel
  };
  std::vector<Box> boxes_;
};

/// Messages between threads of one process.
class ThreadMedium : public Medium {
 public:
  ThreadMedium(std::shared_ptr<Mailboxes> boxes, Rank me) : boxes_(std::move(boxes)), me_(me) {}

  Ticket send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) override;
  Ticket receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) override;
  bool test(Ticket ticket) override;
  void close() override {}

 private:
  struct Message {
    bool used = false;
    bool complete = false;                     // for a receive
    std::shared_ptr<std::atomic<bool>> taken;  // for a send; empty for a receive
    Rank peer;
    MessageTag tag;
    void* data = nullptr;
    Bytes bytes;
  };
  Ticket idle_message();
  void deliver(Rank peer, int channel);

  std::shared_ptr<Mailboxes> boxes_;
  Rank me_;
  std::vector<Message> messages_;
  std::map<std::pair<int, int>, std::deque<int>>
      posted_;  // receives not yet served, by sender and channel, oldest first
};

}  // namespace lockstep::backends
