// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/back_end.hpp"
#include "comm/call_signature.hpp"
#include "comm/host_operation.hpp"
#include "comm/operation.hpp"
#include "comm/wait_for_graph.hpp"
#include "lockstep/base/observer.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// Common base of the back ends that run on the host. Operations run in the order of their submission, with a few in
/// flight at a time; they have a deadline, and a failure poisons the communicator and is reported to the other ranks.
class HostCommunicator : public BackEnd, private ProgressSource {
 public:
  struct Options {
    Capabilities capabilities;
    std::string hostname;  ///< for error messages
    int operations_in_flight = 1;
    std::chrono::duration<double> deadline{};
    Observer* observer = nullptr;
    /// Channel by which ranks report failures to each other; null if another communicator reports them.
    std::shared_ptr<ControlChannel> control{};
  };
  HostCommunicator(Rank rank, int size, Progress& progress, Options options);
  ~HostCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return options_.capabilities; }
  void abort(std::string_view why) noexcept override;
  void close() final;
  Work submit(const Collective& collective) final;
  std::vector<Work> submit_group(std::span<const Collective> members) final;
  std::unique_ptr<Preparation> make_preparation(const Collective& collective) final;
  /// Registers this communicator with the progress. The constructor cannot do so, because a progress thread must not
  /// see an object that is still under construction.
  void enlist() { progress_->add(*this); }
  /// Advances one operation of this communicator. @pre it is pending
  void poll(HostOperation& operation) noexcept;

 protected:
  /// Creates an operation that `prepare` accepts for this kind. All messages share one type of operation, and all other
  /// kinds share another.
  virtual std::shared_ptr<HostOperation> make_operation(CollectiveKind kind) = 0;
  /// Sets up an idle operation for `collective`.
  virtual void prepare(HostOperation& operation, const Collective& collective) = 0;
  /// Is called at intervals while this rank waits. @throws Error{transport} if a peer is known to have ended
  virtual void check_peers();
  /// Sleeps, at most `at_most`, until an operation may advance. Does not sleep if `moved` returns true when called
  /// after this rank has announced to its node that it is about to sleep.
  /// @param all_are_woken  whether all operations wait for ranks of the node, which wake each other
  /// @return false, without calling `moved`, if nothing would wake this rank
  virtual bool sleep_unless(bool /*all_are_woken*/, const std::function<bool()>& /*moved*/,
                            std::chrono::nanoseconds /*at_most*/) {
    return false;
  }
  /// Reports a failure of this rank to the other ranks. It does not communicate.
  virtual void raise(const std::exception_ptr& error) noexcept;
  /// Releases the handles of the back end. Collective.
  virtual void release() = 0;
  /// Gives access to the state of operations outside `prepare` and `release`: see `Progress::Exclusive`.
  [[nodiscard]] Progress& progress_of_rank() const { return *progress_; }
  /// For destructors: returns whether close() was called. If it was not, gives notice, ends the pending operations
  /// as failed, reports the failure to the other ranks, and parks all operations, because messages may still arrive in
  /// their buffers.
  bool depart() noexcept;
  /// Keeps an object alive until the process ends.
  static void park(std::shared_ptr<void> thing);

 private:
  class Kept;

  bool progress() noexcept override;
  bool on_tick(Clock::time_point now) noexcept override;
  [[nodiscard]] bool idle() const noexcept override;
  bool sleep(std::chrono::nanoseconds at_most) noexcept override;
  void watch(Clock::time_point now);
  void poll_control(Clock::time_point now);
  [[nodiscard]] bool is_answered(const ControlChannel::Question& question) const;
  [[nodiscard]] std::optional<CallSignature> own_call(std::uint64_t number) const;
  [[nodiscard]] std::optional<Error> difference_from(int rank, std::uint64_t noticed_in) const;
  [[nodiscard]] std::optional<Error> first_difference(std::uint64_t noticed_in) const;
  [[nodiscard]] Error explained(const Error& error, const HostOperation& operation) const;
  /// Runs the action. An error that it throws gets the name of the operation; a mismatch also gets the operation in
  /// which it began.
  template <typename Action>
  auto on_behalf_of(const HostOperation& operation, const Action& action) const {
    try {
      return action();
    } catch (const Error& error) {
      throw explained(error, operation);
    }
  }
  [[nodiscard]] std::vector<int> awaited() const;
  [[nodiscard]] HostOperation* oldest_pending() const;
  void ask(Clock::time_point since);
  void check_thread(std::string_view operation) const;
  void check_usable(std::string_view operation);
  [[nodiscard]] std::shared_ptr<HostOperation> set_up(const Collective& collective);
  void enqueue(HostOperation& operation);
  void note_call(HostOperation& operation);
  void publish_calls();
  void wait_until_all_leave();
  template <typename Action>
  void for_all_under_way(const Action& action) {
    for (HostOperation* const operation : messages_under_way_) action(*operation);
    for (HostOperation* const operation : under_way_) action(*operation);
  }
  [[nodiscard]] const HostOperation* first_under_way() const;
  bool advance_all();
  void retire();
  void start_next();
  void check_deadline(Clock::time_point now);
  void check_silence(const HostOperation& operation, Clock::duration silent, Clock::time_point now);
  void answer_others();
  /// Returns whether the gap is longer than a waiting rank ever leaves between two polls.
  [[nodiscard]] bool is_long(Clock::duration gap) const { return gap > options_.deadline / 10; }
  [[nodiscard]] bool is_unreported(const std::exception_ptr& error) const;
  void poison(std::exception_ptr error) noexcept;
  void fail(std::exception_ptr error) noexcept;
  [[nodiscard]] std::shared_ptr<HostOperation> idle_operation(CollectiveKind kind);
  [[nodiscard]] std::shared_ptr<HostOperation> kept_operation(CollectiveKind kind);
  [[nodiscard]] std::shared_ptr<HostOperation> new_operation(CollectiveKind kind);

  Options options_;
  Progress* progress_;
  // The last question is sent to these ranks. They are a member so that a training step that waits allocates nothing.
  std::vector<int> asked_;
  using Pool = std::vector<std::shared_ptr<HostOperation>>;
  Pool pool_;
  Pool message_pool_;
  Pool kept_;                              // prepared operations
  std::vector<HostOperation*> under_way_;  // without messages, in the order of submission
  std::vector<HostOperation*> messages_under_way_;
  std::size_t begun_of_those_ = 0;  // how many of under_way_ have begun, from the front
  std::uint64_t begun_ = 0;         // number of operations begun so far
  int next_position_ = 0;
  std::uint64_t submitted_ = 0;  // without messages
  // Two ranks can compare their calls if they are at most this many operations apart.
  static constexpr std::size_t remembered = 256;
  std::array<CallSignature, remembered> calls_{};
  std::uint64_t published_ = 0;  // how many of these calls other ranks can see
  std::uint64_t chain_ = 0;      // hash of the last call
  Clock::time_point last_poll_;
  Clock::time_point last_check_;
  Clock::time_point last_peer_check_;
  WaitForGraph wait_for_graph_;
  std::exception_ptr poison_;
  std::atomic<bool> is_aborted_ = false;  // by the program, on any thread
  bool closed_ = false;
};

}  // namespace lockstep
