// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/signature.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/work.hpp"

namespace lockstep::backends {

class HostCommunicator;

/// An operation that the host drives. Objects are reused, so that a step of training allocates nothing.
class HostOperation : public Operation {
 public:
  HostOperation() { label_.reserve(128); }

  /// Takes note of what to do.
  void describe(const Collective& collective);
  /// What was described is to be done, once more; nothing is sent before `begin`. @param now  for the observer
  void submit(Clock::time_point now);
  /// Its place among those that are begun, the same on all ranks.
  struct Turn {
    int position = 0;          ///< a number below `operations_in_flight` that no other begun operation has
    std::uint64_t number = 0;  ///< of the operation
  };
  /// Posts what can be posted.
  virtual void begin(const Turn& turn) = 0;
  /// Moves as far as it goes without waiting. @return whether anything moved. @throws Error{transport}
  virtual bool advance() = 0;
  /// Whether all that it waits for is announced by a ring of the node's bell.
  [[nodiscard]] virtual bool is_woken() const { return false; }
  /// Adds the ranks that it waits for, as far as they are known. @pre begun. @throws Error{mismatch}
  virtual void add_awaited(std::vector<int>& /*ranks*/) const {}

  [[nodiscard]] std::vector<int> awaited() const {
    std::vector<int> ranks;
    add_awaited(ranks);
    return ranks;
  }

  [[nodiscard]] CollectiveKind kind() const { return kind_; }
  /// What the ranks can compare, chained to the operations before it.
  [[nodiscard]] const Signature& signature() const { return signature_; }
  /// Its number among the operations of its communicator, from 0; of messages none.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Gives it its place among the operations of its communicator. @param before  the hash of the one before it
  void follow(std::uint64_t before, std::uint64_t number) {
    signature_ = chained(call_, before);
    number_ = number;
  }
  /// Its kind, label and size.
  [[nodiscard]] ErrorContext identity() const;
  /// That and, as far as is known, which peer and step it waits for.
  [[nodiscard]] ErrorContext context() const;
  /// @param now  at which it has ended
  [[nodiscard]] Span span(Clock::time_point now) const;
  [[nodiscard]] bool begun() const { return begun_; }
  /// Whether its communicator has still to do with it.
  void set_under_way(bool under_way) { under_way_ = under_way; }
  [[nodiscard]] bool is_under_way() const { return under_way_; }
  /// For how long it has not advanced, as far as those who asked have seen: to read the clock at each advance would
  /// take a good part of the time of a short operation.
  [[nodiscard]] Clock::duration silence(Clock::time_point now) {
    if (std::exchange(has_advanced_, false)) {
      last_advance_ = now;
      has_asked_ = false;
    }
    return now - last_advance_;
  }
  /// Whether it has not advanced since then, as far as silence() has seen.
  [[nodiscard]] bool is_silent_since(Clock::time_point then) const { return !has_advanced_ && last_advance_ < then; }
  /// Whether it has not advanced since this was asked last.
  [[nodiscard]] bool has_asked() { return std::exchange(has_asked_, true); }
  /// Ends as failed; what is under way stays so.
  void abandon(std::exception_ptr error) { fail(std::move(error)); }
  /// Calls the function of a reduce_then. @throws Error that names the operation, whatever the function throws
  void apply(const ConstBuffer& sum, const Buffer& out, Count offset) const;
  /// The deadline counts from here.
  void mark_advance() { has_advanced_ = true; }

  bool order_after(Queue /*queue*/) override { return false; }
  void poll() noexcept override;
  /// By whom it is polled.
  void belong_to(HostCommunicator& owner) { owner_ = &owner; }

 protected:
  /// Ends as done, after making averages of sums.
  void complete();
  void mark_begun() { begun_ = true; }
  /// What it calls, by itself.
  void set_call(const Signature& call) { call_ = call; }
  [[nodiscard]] const Signature& call() const { return call_; }

 private:
  virtual void add_pending(ErrorContext& /*context*/) const {}
  /// By which it runs, for the observer; lives as long as the program.
  [[nodiscard]] virtual std::string_view algorithm() const { return {}; }

  HostCommunicator* owner_ = nullptr;
  CollectiveKind kind_ = CollectiveKind::barrier;
  Bytes bytes_;
  std::string label_;
  SliceFunction function_;
  Buffer averaged_;  // what holds sums until the end; mostly nothing
  bool begun_ = false;
  bool under_way_ = false;
  bool has_advanced_ = false;  // since last_advance_
  bool has_asked_ = false;     // others, what they call
  Signature call_;
  Signature signature_;
  std::uint64_t number_ = 0;
  Clock::time_point submitted_;
  Clock::time_point last_advance_;
};

}  // namespace lockstep::backends
