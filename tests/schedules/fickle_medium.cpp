// SPDX-License-Identifier: Apache-2.0
#include "schedules/fickle_medium.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/plan/seams.hpp"

namespace lockstep::schedules {

using backends::MessageTag;

FickleMedium::FickleMedium(std::shared_ptr<backends::Mailboxes> boxes, std::shared_ptr<Traffic> traffic, Rank me,
                           int channels, std::uint64_t seed, bool short_tags)
    : inner_(std::move(boxes), me),
      me_(me),
      traffic_(std::move(traffic)),
      random_(seed * 64 + static_cast<unsigned>(me.value)),
      eager_of_4_(random_() % 5),
      bits_(short_tags ? 15 : 31, channels) {}

void FickleMedium::note(std::uint64_t number) {
  std::vector<std::uint64_t>& newest = traffic_->newest;
  newest[static_cast<std::size_t>(me_.value)] = number;
  const std::uint64_t oldest = *std::min_element(newest.begin(), newest.end());
  traffic_->most_ahead = std::max(traffic_->most_ahead, number - oldest);
}

MessageTag FickleMedium::shortened(const MessageTag& tag) const {
  return {.channel = tag.channel, .number = static_cast<std::uint64_t>(bits_.pack(tag))};
}

backends::Medium::Ticket FickleMedium::take_message(Ticket inner, bool eager) {
  const auto free =
      std::find_if(messages_.begin(), messages_.end(), [](const Message& message) { return !message.used; });
  const auto index = free - messages_.begin();
  if (free == messages_.end()) messages_.emplace_back();
  Message& message = messages_[static_cast<std::size_t>(index)];
  message = {.used = true,
             .eager = eager,
             .inner = inner,
             .looks_incomplete = random_() % 2 == 0 ? 0 : static_cast<int>(random_() % 6)};
  return {static_cast<int>(index)};
}

backends::Medium::Ticket FickleMedium::send(Rank peer, const MessageTag& tag, const void* data, Bytes bytes) {
  backends::seams::preempt();
  if (tag.channel >= 0) note(tag.number);
  const bool eager = random_() % 4 < eager_of_4_;
  if (eager && bytes > 0) {
    traffic_->copies.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes.value)));
    std::memcpy(traffic_->copies.back().get(), data, static_cast<std::size_t>(bytes.value));
    data = traffic_->copies.back().get();
  }
  return take_message(inner_.send(peer, shortened(tag), data, bytes), eager);
}

backends::Medium::Ticket FickleMedium::receive(Rank peer, const MessageTag& tag, void* data, Bytes bytes) {
  backends::seams::preempt();
  if (tag.channel >= 0) note(tag.number);
  return take_message(inner_.receive(peer, shortened(tag), data, bytes), false);
}

bool FickleMedium::test(Ticket ticket) {
  backends::seams::preempt();
  Message& message = messages_[static_cast<std::size_t>(ticket.index)];
  if (message.looks_incomplete-- > 0) return false;
  if (!message.eager && !inner_.test(message.inner)) return false;
  message.used = false;
  return true;
}

}  // namespace lockstep::schedules
