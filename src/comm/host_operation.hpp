// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "comm/call_signature.hpp"
#include "comm/operation.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep {

class HostCommunicator;

/// An operation that the host drives. Objects are reused, so that a training step allocates nothing.
class HostOperation : public NamedOperation {
 public:
  /// Records what to do.
  void describe(const Collective& collective);
  /// Submits the described operation once more; nothing is sent before `begin`. @param now  time stamp for the observer
  /// @param recorder  null if operations are not recorded
  void submit(Clock::time_point now, FlightRecorder* recorder);
  /// The operation's slot among those in flight, the same on all ranks.
  struct Slot {
    int position = 0;          ///< less than `operations_in_flight`, and unique among the operations in flight
    std::uint64_t number = 0;  ///< running number of the operation
  };
  /// Posts the first sends and receives.
  virtual void begin(const Slot& slot) = 0;
  /// Advances as far as possible without waiting. @return whether anything advanced. @throws Error{transport}
  virtual bool advance() = 0;
  /// Returns whether a ring of the node's bell announces everything that this operation waits for.
  [[nodiscard]] virtual bool is_woken() const { return false; }
  /// Adds the ranks that this operation waits for, as far as they are known. @pre begun. @throws Error{mismatch}
  virtual void add_awaited(std::vector<int>& /*ranks*/) const {}

  [[nodiscard]] std::vector<int> awaited() const {
    std::vector<int> ranks;
    add_awaited(ranks);
    return ranks;
  }

  /// Returns the signature that ranks compare, chained to the operations before this one.
  [[nodiscard]] const CallSignature& signature() const { return signature_; }
  /// Returns its index among the operations of its communicator, from 0; messages have none.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Sets the index, chains the signature and returns it. @param before  the hash of the operation before this one
  CallSignature follow(std::uint64_t before, std::uint64_t number) {
    const CallSignature signature = chained(call_, before);
    signature_ = signature;
    number_ = number;
    return signature;
  }
  /// Returns the identity and, as far as they are known, the peer and step that it waits for.
  [[nodiscard]] ErrorContext context() const;
  [[nodiscard]] bool begun() const { return begun_; }
  /// Sets whether its communicator still tracks it.
  void set_under_way(bool under_way) { under_way_ = under_way; }
  [[nodiscard]] bool is_under_way() const { return under_way_; }
  /// Returns for how long this operation has not advanced, as far as callers of this function have seen. `advance` does
  /// not read the clock, because that would take a considerable part of a short operation's time.
  [[nodiscard]] Clock::duration silence(Clock::time_point now) {
    if (std::exchange(has_advanced_, false)) {
      last_advance_ = now;
      has_asked_ = false;
    }
    return now - last_advance_;
  }
  /// Returns whether it has not advanced since `order_before`, as far as silence() has seen.
  [[nodiscard]] bool is_silent_since(Clock::time_point then) const { return !has_advanced_ && last_advance_ < then; }
  /// Returns whether it has not advanced since the last call of this function.
  [[nodiscard]] bool has_asked() { return std::exchange(has_asked_, true); }
  /// Restarts the deadline.
  void mark_advance() { has_advanced_ = true; }

  bool order_after(Queue /*queue*/) override { return false; }
  void poll() noexcept override;
  /// Sets the communicator that polls it.
  void belong_to(HostCommunicator& owner);

 protected:
  /// Ends as done, after dividing sums into averages.
  void complete();
  void mark_begun() { begun_ = true; }
  /// Sets the signature of this call alone, without the calls before it.
  void set_call(const CallSignature& call) { call_ = call; }
  [[nodiscard]] const CallSignature& call() const { return call_; }

 private:
  virtual void add_pending(ErrorContext& /*context*/) const {}

  HostCommunicator* owner_ = nullptr;
  Buffer averaged_;  // buffer whose sums are divided at the end; empty unless the operator is average
  bool begun_ = false;
  bool under_way_ = false;
  bool has_advanced_ = false;  // since last_advance_
  bool has_asked_ = false;     // see has_asked()
  CallSignature call_;
  CallSignature signature_;
  std::uint64_t number_ = 0;
  Clock::time_point last_advance_;
};

}  // namespace lockstep
