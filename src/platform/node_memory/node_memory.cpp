// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/node_memory.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <limits>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/mapping.hpp"
#include "platform/node_memory/node_memory_layout.hpp"

namespace lockstep {
namespace {

// FUTEX_PRIVATE_FLAG is not set, because it would limit a wake-up to one process.
long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

class OneProcess final : public NodeMemory::Store {
 public:
  OneProcess(int ranks, Bytes control_bytes)
      : controls_(Mapping::untouched({ranks * control_bytes.value})), members_(static_cast<std::size_t>(ranks)) {}

  // Small buffers come from the C library, where the address sanitizer guards their ends; large ones are in huge pages.
  Allocation allocate(Bytes bytes) override {
    if (bytes.value < huge_page_bytes) {
      auto memory = std::make_shared<Allocation>(allocate_host(bytes));
      void* data = memory->data();
      return {data, bytes, MemoryKind::shared, [memory](void*) {}};
    }
    auto memory = std::make_shared<Mapping>(Mapping::anonymous(bytes));
    void* data = memory->data();
    return {data, bytes, MemoryKind::shared, [memory](void*) {}};
  }
  void left_in_order() override {}  // the areas are freed with the last rank that holds them
  [[nodiscard]] bool has_mortal_ranks() const override { return false; }
  [[nodiscard]] bool has_ended(int /*peer*/) const override { return false; }

  [[nodiscard]] std::byte* controls() const { return controls_.data(); }
  [[nodiscard]] Doorbell* doorbell() { return &doorbell_; }
  [[nodiscard]] NodeMember* members() { return members_.data(); }
  [[nodiscard]] std::atomic<std::uint32_t>* alarm() { return &alarm_; }

 private:
  Mapping controls_;
  Doorbell doorbell_;
  std::vector<NodeMember> members_;
  alignas(Doorbell) std::atomic<std::uint32_t> alarm_{0};
};

}  // namespace

bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most) {
  const auto nanoseconds = std::max<std::chrono::nanoseconds::rep>(at_most.count(), 0);
  const timespec timeout{.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000),
                         .tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000)};
  return futex(word, FUTEX_WAIT, expected, &timeout) == 0 || errno != ETIMEDOUT;
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) { futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

bool register_for_barriers(BarrierReach reach) {
  const int command = reach == BarrierReach::process ? MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
                                                     : MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

void barrier_on_every_processor(BarrierReach reach) {
  syscall(SYS_membarrier,
          reach == BarrierReach::process ? MEMBARRIER_CMD_PRIVATE_EXPEDITED : MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

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

std::vector<std::shared_ptr<NodeMemory>> make_node_memory_of_threads(int ranks, const NodeMemoryOptions& options) {
  if (ranks < 1) throw Error(ErrorCode::invalid_argument, "a node has at least one rank, not " + std::to_string(ranks));
  const Bytes control_bytes = whole_pages(options.control_bytes);
  const auto store = std::make_shared<OneProcess>(ranks, control_bytes);
  NodeMemory::View view{
      .size = ranks,
      .control_bytes = control_bytes,
      .own_heap_bytes = std::numeric_limits<std::uintptr_t>::max(),  // the heap begins at 0: a location is an address
      .doorbell = store->doorbell(),
      .members = store->members(),
      .alarm = store->alarm()};
  if (options.membarrier && register_for_barriers(BarrierReach::process)) view.barrier = BarrierReach::process;
  for (int rank = 0; rank < ranks; ++rank) view.controls.push_back(store->controls() + rank * control_bytes.value);
  view.heaps.resize(static_cast<std::size_t>(ranks));  // each heap begins at 0
  std::vector<std::shared_ptr<NodeMemory>> views;
  for (view.rank = 0; view.rank < ranks; ++view.rank) views.push_back(std::make_shared<NodeMemory>(view, store));
  return views;
}

}  // namespace lockstep
