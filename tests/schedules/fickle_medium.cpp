// SPDX-License-Identifier: Apache-2.0
#include "schedules/fickle_medium.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "backends/plan/seams.hpp"

namespace lockstep::schedules {

using backends::MessageTag;

FickleMedium::FickleMedium(std::shared_ptr<backends::LetterBoxes> boxes, std::shared_ptr<Copies> copies, Rank me,
                           int lanes, std::uint64_t seed, bool short_tags)
    : inner_(std::move(boxes), me), copies_(std::move(copies)), random_(seed * 64 + static_cast<unsigned>(me.value)) {
  const unsigned bits_of_a_tag = short_tags ? 15 : 31;
  const auto lane_bits = static_cast<unsigned>(std::bit_width(static_cast<unsigned>(lanes)));
  tag_bits_ = (bits_of_a_tag - lane_bits) / 2;
}

MessageTag FickleMedium::shortened(const MessageTag& tag) const {
  const std::uint64_t mask = (std::uint64_t{1} << tag_bits_) - 1;
  return {.lane = tag.lane,
          .number = tag.number & mask,
          .signature = {.hash = tag.signature.hash & mask},
          .from = tag.from};
}

backends::Medium::Ticket FickleMedium::take_slot(Ticket inner, bool eager) {
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.used; });
  const auto index = free - slots_.begin();
  if (free == slots_.end()) slots_.emplace_back();
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot = {.used = true,
          .eager = eager,
          .inner = inner,
          .looks_incomplete = random_() % 2 == 0 ? 0 : static_cast<int>(random_() % 6)};
  return {static_cast<int>(index)};
}

backends::Medium::Ticket FickleMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  backends::seams::preempt();
  const bool eager = random_() % 2 == 0;
  if (eager && bytes.value > 0) {
    copies_->push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes.value)));
    std::memcpy(copies_->back().get(), data, static_cast<std::size_t>(bytes.value));
    data = copies_->back().get();
  }
  return take_slot(inner_.send(peer, shortened(tag), data, bytes), eager);
}

backends::Medium::Ticket FickleMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  backends::seams::preempt();
  return take_slot(inner_.receive(peer, shortened(tag), data, bytes), false);
}

bool FickleMedium::test(Ticket ticket) {
  backends::seams::preempt();
  Slot& slot = slots_[static_cast<std::size_t>(ticket.slot)];
  if (slot.looks_incomplete-- > 0) return false;
  if (!slot.eager && !inner_.test(slot.inner)) return false;
  slot.used = false;
  return true;
}

void FickleMedium::look(const MessageTag& ours) { inner_.look(shortened(ours)); }

}  // namespace lockstep::schedules
