// SPDX-License-Identifier: Apache-2.0
#include "lockstep/platform/node_memory.hpp"

#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "platform/futex.hpp"
#include "platform/node_memory_store.hpp"

namespace lockstep {

NodeMemory::NodeMemory(const View& view, std::shared_ptr<Store> store) : view_(view), store_(std::move(store)) {}

NodeMemory::~NodeMemory() { give_up(); }

void NodeMemory::give_up() noexcept {
  if (store_ == nullptr) return;
  store_->leave(Departure::gave_up);
  wake();
}

Allocation NodeMemory::allocate(Bytes bytes) {
  if (store_ == nullptr) throw Error(ErrorCode::invalid_argument, "the node's memory is closed");
  if (bytes.value < 0) {
    throw Error(ErrorCode::invalid_argument, "cannot allocate " + std::to_string(bytes.value) + " bytes");
  }
  if (bytes.value == 0) return {};
  return store_->allocate(bytes);
}

// No wake-up is lost: either who rings sees this rank among the sleepers, or, since the barrier (or the order of the
// two atomic additions) lies between, this rank's second look sees what was written before the ring. The number of
// rings is read before that look, so that a ring after it keeps the futex from sleeping.
void NodeMemory::prepare_sleep() {
  view_.doorbell->sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (view_.membarrier) barrier_on_every_processor();
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

std::optional<LostPeer> NodeMemory::lost_peer() const { return store_->lost_peer(); }

void NodeMemory::close() {
  if (store_ == nullptr) return;
  store_->leave(Departure::in_order);
  store_.reset();
}

}  // namespace lockstep
