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
#include "platform/node_memory/control_channel.hpp"

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

/// Mailboxes for texts between threads of different nodes.
class LocalPosts {
 public:
  explicit LocalPosts(int ranks) : boxes_(static_cast<std::size_t>(ranks)) {}
  void put(int rank, const std::string& text) {
    const std::scoped_lock lock(mutex_);
    boxes_[static_cast<std::size_t>(rank)].push_back(text);
  }
  std::optional<std::string> take(int rank) {
    const std::scoped_lock lock(mutex_);
    auto& box = boxes_[static_cast<std::size_t>(rank)];
    if (box.empty()) return std::nullopt;
    std::optional<std::string> text(std::move(box.front()));
    box.pop_front();
    return text;
  }

 private:
  std::mutex mutex_;
  std::vector<std::deque<std::string>> boxes_;  // by receiver
};

/// One thread's end of the mailboxes.
class LocalPost final : public ControlChannel::Post {
 public:
  LocalPost(std::shared_ptr<LocalPosts> posts, Rank me) : posts_(std::move(posts)), me_(me) {}
  void send(const std::vector<int>& ranks, const std::string& text, Delivery /*delivery*/) override {
    for (const int rank : ranks) posts_->put(rank, text);
  }
  std::optional<std::string> receive() override { return posts_->take(me_.value); }
  [[nodiscard]] bool wants_all_received() const override { return false; }
  void close() override {}

 private:
  std::shared_ptr<LocalPosts> posts_;
  Rank me_;
};

}  // namespace lockstep::backends
