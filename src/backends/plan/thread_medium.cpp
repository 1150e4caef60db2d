// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/thread_medium.hpp"

#include <algorithm>

namespace lockstep::backends {

void Mailboxes::put(Rank from, Rank to, Letter letter) {
  Box& box = boxes_[static_cast<std::size_t>(to.value)];
  const std::scoped_lock lock(box.mutex);
  box.letters[{from.value, letter.tag.channel}].push_back(std::move(letter));
}

bool Mailboxes::take(Rank from, Rank to, const MessageTag& tag, void* data, Bytes bytes) {
  Box& box = boxes_[static_cast<std::size_t>(to.value)];
  const std::scoped_lock lock(box.mutex);
  auto& letters = box.letters[{from.value, tag.channel}];
  if (letters.empty() || letters.front().tag != tag) return false;
  const Letter letter = std::move(letters.front());
  letters.pop_front();
  if (letter.bytes != bytes) throw other_size(from.value, std::to_string(letter.bytes.value) + " where ", bytes);
  if (bytes > 0) std::memcpy(data, letter.data, static_cast<std::size_t>(bytes.value));
  letter.taken->store(true, std::memory_order_release);
  return true;
}

Medium::Ticket ThreadMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  const Ticket ticket = idle_message();
  Message& message = messages_[static_cast<std::size_t>(ticket.index)];
  message.taken = std::make_shared<std::atomic<bool>>(false);
  boxes_->put(me_, peer, {tag, data, bytes, message.taken});
  return ticket;
}

Medium::Ticket ThreadMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  const Ticket ticket = idle_message();
  Message& message = messages_[static_cast<std::size_t>(ticket.index)];
  message.complete = false;
  message.taken = nullptr;
  message.peer = peer;
  message.tag = tag;
  message.data = data;
  message.bytes = bytes;
  posted_[{peer.value, tag.channel}].push_back(ticket.index);
  return ticket;
}

bool ThreadMedium::test(Ticket ticket) {
  Message& message = messages_[static_cast<std::size_t>(ticket.index)];
  if (!message.taken) deliver(message.peer, message.tag.channel);
  const bool complete = message.taken ? message.taken->load(std::memory_order_acquire) : message.complete;
  if (complete) message.used = false;
  return complete;
}

/// Serves the receives of one sender and channel in the order in which they were posted.
void ThreadMedium::deliver(Rank peer, int channel) {
  auto& posted = posted_[{peer.value, channel}];
  while (!posted.empty()) {
    Message& oldest = messages_[static_cast<std::size_t>(posted.front())];
    if (!boxes_->take(peer, me_, oldest.tag, oldest.data, oldest.bytes)) return;
    oldest.complete = true;
    posted.pop_front();
  }
}

Medium::Ticket ThreadMedium::idle_message() {
  const auto free =
      std::find_if(messages_.begin(), messages_.end(), [](const Message& message) { return !message.used; });
  const auto index = free - messages_.begin();
  if (free == messages_.end()) messages_.emplace_back();
  messages_[static_cast<std::size_t>(index)].used = true;
  return {static_cast<int>(index)};
}

}  // namespace lockstep::backends
