// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/message_operation.hpp"

#include <algorithm>

namespace lockstep::backends {

void MessageOperation::prepare(const Collective& collective) {
  sends_ = collective.kind == CollectiveKind::send;
  peer_ = collective.root;
  source_ = static_cast<const std::byte*>(collective.in.data);
  target_ = static_cast<std::byte*>(collective.out.data);
  bytes_ = sends_ ? collective.in.bytes() : collective.out.bytes();
  signature_ = signature_of(collective);
  // The tag does not include the signature, because a message with another signature must match the recv, which detects
  // the mismatch.
  tag_ = {};
}

void MessageOperation::begin(const Slot& /*slot*/) {
  mark_begun();
  mark_advance();
  auto& numbers = sends_ ? messages_->sent : messages_->received;
  tag_.number = numbers[static_cast<std::size_t>(peer_.value)]++;
  tag_.channel = MessageTag::of_two;
  flights_.clear();
  is_sealed_ = !sends_;
  if (sends_) {
    envelope_.signature = signature_;
    if (fits_in_envelope() && bytes_.value > 0)
      std::memcpy(envelope_.data.data(), source_, static_cast<std::size_t>(bytes_.value));
  }
  flights_.push_back(post(&envelope_, &envelope_, {sizeof envelope_}));
  if (sends_) post_pieces();
}

/// Posts all pieces at once: they have the same tag, so they arrive in their order. The same holds for messages whose
/// numbers are equal in the bits that fit into a tag, since envelopes are opened in their order.
void MessageOperation::post_pieces() {
  if (fits_in_envelope()) return;
  tag_.channel = MessageTag::rest_of_two;
  for (std::int64_t offset = 0; offset < bytes_.value; offset += messages_->limit.value) {
    const Bytes piece = std::min(messages_->limit, Bytes{bytes_.value - offset});
    flights_.push_back(post(target_ + (sends_ ? 0 : offset), source_ + (sends_ ? offset : 0), piece));
  }
}

Medium::Ticket MessageOperation::post(void* target, const void* source, Bytes bytes) const {
  return sends_ ? messages_->medium->send(peer_, tag_, source, bytes)
                : messages_->medium->receive(peer_, tag_, target, bytes);
}

bool MessageOperation::advance() {
  const std::size_t before = flights_.size();
  std::erase_if(flights_, [this](Medium::Ticket flight) { return messages_->medium->test(flight); });
  const bool opens = is_sealed_ && has_come();
  if (flights_.size() == before && !opens) return false;
  mark_advance();
  if (opens) open();
  if (!is_sealed_ && flights_.empty()) complete();
  return true;
}

bool MessageOperation::has_come() const {
  return flights_.empty() && messages_->opened[static_cast<std::size_t>(peer_.value)] == tag_.number;
}

/// Opens the envelope. @throws Error{mismatch}
void MessageOperation::open() {
  is_sealed_ = false;
  ++messages_->opened[static_cast<std::size_t>(peer_.value)];
  if (envelope_.signature != signature_) throw disagreement(peer_.value, envelope_.signature, signature_);
  post_pieces();
  if (fits_in_envelope() && bytes_.value > 0)
    std::memcpy(target_, envelope_.data.data(), static_cast<std::size_t>(bytes_.value));
}

}  // namespace lockstep::backends
