// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/node_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/futex.hpp"
#include "platform/node_memory/node_memory_layout.hpp"

namespace lockstep {

NodeMemory::NodeMemory(View view, std::shared_ptr<Store> store) : view_(std::move(view)), store_(std::move(store)) {}

NodeMemory::~NodeMemory() { give_up("it was destroyed before it was closed"); }

void NodeMemory::give_up(std::string_view reason) noexcept {
  if (store_ == nullptr) return;
  NodeMember& own = view_.members[view_.rank];
  Departure before = Departure::none;
  if (!own.departure.compare_exchange_strong(before, Departure::giving_up, std::memory_order_relaxed)) return;
  const std::size_t length = std::min(reason.size(), longest_reason);
  std::copy_n(reason.data(), length, own.reason.data());
  own.reason_length = static_cast<std::uint32_t>(length);
  own.departure.store(Departure::gave_up, std::memory_order_release);
  std::uint32_t nobody = 0;
  view_.alarm->compare_exchange_strong(nobody, static_cast<std::uint32_t>(view_.rank) + 1, std::memory_order_release);
  wake();
}

LostPeer NodeMemory::departed(int rank) const {
  const NodeMember& peer = view_.members[rank];
  if (peer.departure.load(std::memory_order_acquire) != Departure::gave_up) return {rank, false, {}};
  return {rank, true, std::string(peer.reason.data(), std::min<std::size_t>(peer.reason_length, longest_reason))};
}

Allocation NodeMemory::allocate(Bytes bytes) {
  if (store_ == nullptr) throw Error(ErrorCode::invalid_argument, "the node's memory is closed");
  if (bytes.value < 0) {
    throw Error(ErrorCode::invalid_argument, "cannot allocate " + std::to_string(bytes.value) + " bytes");
  }
  if (bytes.value == 0) return {};
  return store_->allocate(bytes);
}

// No wake-up is lost if the barrier reaches the ringing rank. Either that rank sees this one among the sleepers. Or,
// since the barrier (or the order of the two atomic additions) lies in between, this rank's second check sees what was
// written before the ring. The number of rings is read before that check, so that a later ring keeps the futex from
// sleeping.
void NodeMemory::prepare_sleep() {
  view_.doorbell->sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (view_.barrier) barrier_on_every_processor(*view_.barrier);
  rings_seen_ = view_.doorbell->rings.load(std::memory_order_acquire);
}

void NodeMemory::cancel_sleep() { view_.doorbell->sleepers.fetch_sub(1, std::memory_order_relaxed); }

bool NodeMemory::sleep(std::chrono::nanoseconds at_most) {
  const bool rung = futex_wait(view_.doorbell->rings, rings_seen_, at_most);
  cancel_sleep();
  return rung;
}

void NodeMemory::wake() const noexcept {
  view_.doorbell->rings.fetch_add(1, std::memory_order_release);
  futex_wake_all(view_.doorbell->rings);
}

std::optional<LostPeer> NodeMemory::lost_peer() const {
  if (!store_->has_mortal_ranks()) return std::nullopt;
  if (auto who = given_up(); who && who->rank != rank()) return who;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || !store_->has_ended(peer)) continue;
    // The departure is read second, because a rank publishes it before its process ends.
    const Departure how = view_.members[peer].departure.load(std::memory_order_acquire);
    if (how != Departure::in_order && how != Departure::released) return departed(peer);
  }
  return std::nullopt;
}

void NodeMemory::close() {
  if (store_ == nullptr) return;
  Departure before = Departure::none;  // a rank that gave up has left already, and its area stays
  if (view_.members[rank()].departure.compare_exchange_strong(before, Departure::in_order, std::memory_order_acq_rel)) {
    store_->left_in_order();
  }
  store_.reset();
}

}  // namespace lockstep
