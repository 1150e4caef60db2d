#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/work.hpp"

namespace lockstep::backends {

/// An operation that the host drives. Objects are reused, so that a step of training allocates nothing.
class HostOperation : public Operation {
 public:
  HostOperation() { label_.reserve(128); }

  /// Takes note of what to do; nothing is sent before `begin`.
  void submit(const Collective& collective);
  /// Its place among those that are begun, the same on all ranks.
  struct Turn {
    int slot = 0;              ///< a number below `operations_in_flight` that no other begun operation has
    std::uint64_t number = 0;  ///< of the operation
  };
  /// Posts what can be posted.
  virtual void begin(const Turn& turn) = 0;
  /// Moves as far as it goes without waiting. @return whether anything moved. @throws Error{transport}
  virtual bool advance() = 0;
  /// Whether all that it waits for is announced by a ring of the node's bell.
  [[nodiscard]] virtual bool is_woken() const { return false; }
  /// Called now and then while it has not advanced for long: looks whether a peer does something else.
  /// @throws Error{transport | mismatch}
  virtual void look_at_peers() {}

  /// Its kind, label and size.
  [[nodiscard]] ErrorContext identity() const;
  /// That and, as far as is known, which peer and step it waits for.
  [[nodiscard]] ErrorContext context() const;
  [[nodiscard]] Span span() const;
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] Clock::time_point last_advance() const { return last_advance_; }
  /// Ends as failed; what is under way stays so.
  void abandon(std::exception_ptr error) { fail(std::move(error)); }
  /// The deadline counts from here.
  void mark_advance() { last_advance_ = Clock::now(); }

  bool order_after(Queue /*queue*/) override { return false; }

 protected:
  void mark_begun() { begun_ = true; }

 private:
  virtual void add_pending(ErrorContext& /*context*/) const {}
  /// By which it runs, for the observer; lives as long as the program.
  [[nodiscard]] virtual std::string_view algorithm() const { return {}; }

  CollectiveKind kind_ = CollectiveKind::barrier;
  Bytes bytes_;
  std::string label_;
  bool begun_ = false;
  Clock::time_point submitted_;
  Clock::time_point last_advance_;
};

}  // namespace lockstep::backends
