// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// What threads that are ranks share. The first thread of a set that asks for an object makes it, and each thread of
/// the set takes it once. Any thread may call it.
class SharedByThreads {
 public:
  /// @param name     of the object; the same on all threads of the set, and for no other object
  /// @param threads  of the set
  template <typename Object, typename Make>
  std::shared_ptr<Object> take(const std::string& name, int threads, const Make& make) {
    const std::scoped_lock lock(mutex_);
    Entry& entry = entries_[name];
    if (entry.taken == 0) entry.object = make();
    auto object = std::static_pointer_cast<Object>(entry.object);
    if (++entry.taken == threads) entries_.erase(name);
    return object;
  }

 private:
  struct Entry {
    std::shared_ptr<void> object;
    int taken = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// Mailboxes for texts of control channels between threads.
class ThreadMailboxes {
 public:
  explicit ThreadMailboxes(int ranks) : boxes_(static_cast<std::size_t>(ranks)) {}
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
class ThreadControlLink final : public ControlLink {
 public:
  ThreadControlLink(std::shared_ptr<ThreadMailboxes> mailboxes, Rank me) : mailboxes_(std::move(mailboxes)), me_(me) {}
  void send(const std::vector<int>& ranks, const std::string& text, Delivery /*delivery*/) override {
    for (const int rank : ranks) mailboxes_->put(rank, text);
  }
  std::optional<std::string> receive() override { return mailboxes_->take(me_.value); }
  [[nodiscard]] bool wants_all_received() const override { return false; }
  void close() override {}

 private:
  std::shared_ptr<ThreadMailboxes> mailboxes_;
  Rank me_;
};

/// Does the work on as many threads, each with its number, and returns when all have ended. @throws what the first of
/// them throws that throws something
void on_each_thread(int threads, const std::function<void(int)>& work);

}  // namespace lockstep
