// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/types.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::backends {

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
