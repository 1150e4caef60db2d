// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/thread_medium.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::backends {

void LetterBoxes::put(Rank from, Rank to, Letter letter) {
  Box& box = boxes_[static_cast<std::size_t>(to.value)];
  const std::scoped_lock lock(box.mutex);
  box.letters[{from.value, letter.tag.lane}].push_back(std::move(letter));
}

bool LetterBoxes::take(Rank from, Rank to, const MessageTag& tag, void* data, Bytes bytes) {
  Box& box = boxes_[static_cast<std::size_t>(to.value)];
  const std::scoped_lock lock(box.mutex);
  auto& letters = box.letters[{from.value, tag.lane}];
  if (letters.empty() || letters.front().tag != tag) return false;
  const Letter letter = std::move(letters.front());
  letters.pop_front();
  if (letter.bytes != bytes) {
    throw Error(ErrorCode::mismatch,
                "rank " + std::to_string(from.value) + " sent a message of " + std::to_string(letter.bytes.value) +
                    " where " + std::to_string(bytes.value) +
                    " bytes were expected: do both ranks pass the same count?",
                {.peers = {from.value}});
  }
  if (bytes.value > 0) std::memcpy(data, letter.data, static_cast<std::size_t>(bytes.value));
  letter.taken->store(true, std::memory_order_release);
  return true;
}

Medium::Ticket ThreadMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  const Ticket ticket = free_slot();
  Slot& slot = slots_[static_cast<std::size_t>(ticket.slot)];
  slot.taken = std::make_shared<std::atomic<bool>>(false);
  boxes_->put(me_, peer, {tag, data, bytes, slot.taken});
  return ticket;
}

Medium::Ticket ThreadMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  const Ticket ticket = free_slot();
  Slot& slot = slots_[static_cast<std::size_t>(ticket.slot)];
  slot.complete = false;
  slot.taken = nullptr;
  slot.peer = peer;
  slot.tag = tag;
  slot.data = data;
  slot.bytes = bytes;
  posted_[{peer.value, tag.lane}].push_back(ticket.slot);
  return ticket;
}

bool ThreadMedium::test(Ticket ticket) {
  Slot& slot = slots_[static_cast<std::size_t>(ticket.slot)];
  if (!slot.taken) deliver(slot.peer, slot.tag.lane);
  const bool complete = slot.taken ? slot.taken->load(std::memory_order_acquire) : slot.complete;
  if (complete) slot.used = false;
  return complete;
}

/// Serves the receives of one sender and lane in the order in which they were posted.
void ThreadMedium::deliver(Rank peer, int lane) {
  auto& posted = posted_[{peer.value, lane}];
  while (!posted.empty()) {
    Slot& oldest = slots_[static_cast<std::size_t>(posted.front())];
    if (!boxes_->take(peer, me_, oldest.tag, oldest.data, oldest.bytes)) return;
    oldest.complete = true;
    posted.pop_front();
  }
}

Medium::Ticket ThreadMedium::free_slot() {
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.used; });
  const auto index = free - slots_.begin();
  if (free == slots_.end()) slots_.emplace_back();
  slots_[static_cast<std::size_t>(index)].used = true;
  return {static_cast<int>(index)};
}

}  // namespace lockstep::backends
