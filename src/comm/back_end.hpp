// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/origin_process.hpp"
#include "comm/operation.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// The state that a back end keeps of an operation that is started many times.
class Preparation {
 public:
  Preparation() = default;
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;
  virtual ~Preparation() = default;
  /// Submits the operation. @pre the previous start has ended. @return the Work of this start, valid until the next
  /// @throws as Communicator
  virtual Work& start(Queue queue) = 0;
};

/// Returns the Preparation of a prepared operation, for a back end that wraps another one.
std::unique_ptr<Preparation> preparation_of(Prepared prepared);

/// The error of a thread that uses a group which belongs to another one.
constexpr std::string_view on_another_thread =
    "submitted on another thread than the one that uses this rank's communicators: all of them, and the groups split "
    "from each other, are for one thread. Another one uses them while it has the turn (const auto turn = "
    "group.take_turn();), or has a group of its own";

/// What runs the operations of a communicator. The Communicator checks the arguments, and calls this.
class BackEnd {
 public:
  BackEnd(Rank rank, int size) : rank_(rank), size_(size) {}
  BackEnd(const BackEnd&) = delete;
  BackEnd& operator=(const BackEnd&) = delete;
  virtual ~BackEnd();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  /// `Capabilities::no_leaves` for buffers in this memory.
  [[nodiscard]] virtual std::string_view why_no_leaves(MemoryKind /*where*/) const { return capabilities().no_leaves; }

  /// Starts a collective that has been checked.
  virtual Work submit(const Collective& collective) = 0;
  /// Submits a group whose members have been checked. The default submits them one by one.
  virtual std::vector<Work> submit_group(std::span<const Collective> members);
  /// Prepares a collective that has been checked. The default submits it at each start.
  virtual std::unique_ptr<Preparation> make_preparation(const Collective& collective);
  /// As Communicator::allocate. The default allocates memory of the host.
  virtual Allocation allocate(Bytes bytes);
  /// Registers memory from `allocate` of which all ranks pass the same number of bytes, so that operations on it may
  /// reach the memory of other ranks directly. Collective. @return what ends the registration when the thread that uses
  /// the communicator destroys it, before the memory is freed; null where memory need not be registered
  virtual std::shared_ptr<const void> register_memory(const Buffer& memory);
  /// As Communicator::abort.
  virtual void abort(std::string_view why) noexcept = 0;
  /// As Communicator::close.
  virtual void close() = 0;

  /// The process that made this.
  [[nodiscard]] const OriginProcess& origin() const { return origin_; }
  /// @throws Error{invalid_argument} in a child of the process that made this
  void check_process(std::string_view operation) const {
    if (!origin_.is_here()) refuse_child(operation);
  }
  /// @throws Error{unsupported} if this back end does not order its operations after streams
  void check_queue(const Collective& collective, Queue queue) const;
  /// Returns an error of this rank about a collective that is not submitted.
  [[nodiscard]] Error refusal(ErrorCode code, const std::string& why, const Collective& collective) const;

  /// Lets the destructor of the communicator close it if no exception is under way, no operation is pending, and
  /// `may_close` returns true. Otherwise, and without this call, destroying an open communicator makes the other ranks
  /// fail.
  void close_when_destroyed(std::function<bool()> may_close) { may_close_ = std::move(may_close); }
  /// Calls `call` when this is destroyed, after the destructor of the derived class; for owners of lists of
  /// communicators. It must not throw.
  void when_destroyed(std::function<void()> call) { when_destroyed_.push_back(std::move(call)); }
  /// Closes the communicator if `close_when_destroyed` allows it. The destructor of the communicator calls it.
  void close_if_wanted() noexcept;

 private:
  [[noreturn]] void refuse_child(std::string_view operation) const;

  Rank rank_;
  int size_;
  OriginProcess origin_;
  std::function<bool()> may_close_;
  std::vector<std::function<void()>> when_destroyed_;
};

/// Returns what runs the operations of a communicator.
BackEnd& back_end_of(const Communicator& communicator);

/// Checks the arguments, and clears those that this rank passes without effect, so that they do not reach a back end.
/// @throws as Communicator
void check(const BackEnd& back_end, Collective& collective);

/// Returns why a request can never work, or an empty string if it is valid.
std::string complaint(const Collective& collective, Rank rank, int size);

/// Closes the control channel of a communicator that this rank has left once all other ranks have left it. Most ranks
/// leave at the same time, so it waits up to `at_most`; after that the progress engine closes the channel later,
/// because ranks may close communicators in any order. @throws Error{transport}
inline void close_when_all_have_left(const std::shared_ptr<ControlChannel>& control, Progress& progress,
                                     std::chrono::milliseconds at_most = std::chrono::milliseconds(100)) {
  if (progress.wait_until([&control] { return control->close(); }, progress.now() + at_most)) return;
  progress.defer([control] {
    try {
      return control->close();
    } catch (const std::exception&) {  // nobody can handle this error
      return true;
    }
  });
}

}  // namespace lockstep
