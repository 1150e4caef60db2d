// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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

#include "comm/blame.hpp"
#include "comm/host_operation.hpp"
#include "comm/signature.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::backends {

/// What the back ends that run on the host have in common: operations in the order of their submission, a few of them
/// begun at a time, a deadline, poisoning after a failure, and telling the other ranks of it.
class HostCommunicator : public Communicator, private ProgressSource {
 public:
  struct Options {
    std::string_view backend;
    std::string hostname;  ///< for error messages
    int operations_in_flight = 1;
    std::chrono::duration<double> deadline{};
    Observer* observer = nullptr;
    std::string_view no_reduce_then{};  ///< as in Capabilities
    std::string_view no_average{};      ///< as in Capabilities
    std::string_view no_leaves{};       ///< as in Capabilities
    /// Through which ranks tell each other of failures; null where another communicator does that.
    std::shared_ptr<ControlChannel> control{};
  };
  HostCommunicator(Rank rank, int size, Progress& progress, Options options);
  ~HostCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  void abort(std::string_view why) noexcept override;
  void close() final;
  /// Registers it with the progress. Not in the constructor: a progress thread must not meet an object that is still
  /// being made.
  void enlist() { progress_->add(*this); }
  /// Moves one operation of its own. @pre it is pending
  void poll(HostOperation& operation) noexcept;

 protected:
  Work submit(const Collective& collective) final;
  std::vector<Work> submit_group(std::span<const Collective> members) final;
  std::unique_ptr<Preparation> make_preparation(const Collective& collective) final;

  /// A fresh operation, as `prepare` expects it for this kind; of all messages the same, and of all others.
  virtual std::shared_ptr<HostOperation> make_operation(CollectiveKind kind) = 0;
  /// Tells an idle operation what to do.
  virtual void prepare(HostOperation& operation, const Collective& collective) = 0;
  /// Called now and then while this rank waits. @throws Error{transport} if a peer is known to be gone
  virtual void check_peers();
  /// Sleeps, at most `at_most`, until a rank of the node rings, unless `moved` is true once all others would ring.
  /// @return false, without having asked, where ranks do not wake each other
  virtual bool sleep_unless(const std::function<bool()>& /*moved*/, std::chrono::nanoseconds /*at_most*/) {
    return false;
  }
  /// Lets the other ranks know of a failure of this one. It does not communicate.
  virtual void raise(const std::exception_ptr& error) noexcept;
  /// Releases the handles. Collective.
  virtual void release() = 0;
  /// For what touches the state of operations otherwise than in `prepare` and `release`: see `Progress::Exclusive`.
  [[nodiscard]] Progress& progress_of_rank() const { return *progress_; }
  /// For destructors: whether close() was called. Where it was not, gives notice of it, ends the operations that are
  /// under way as failed, tells the other ranks, and parks all of them, because messages may still be on their way into
  /// them.
  bool depart() noexcept;
  /// Keeps something until the process ends.
  static void park(std::shared_ptr<void> thing);

 private:
  class Kept;

  bool progress() noexcept override;
  bool look_round(Clock::time_point now) noexcept override;
  [[nodiscard]] bool idle() const noexcept override;
  bool sleep(std::chrono::nanoseconds at_most) noexcept override;
  void heed(Clock::time_point now);
  void tell_now() noexcept;
  [[nodiscard]] bool is_answered(const ControlChannel::Question& question) const;
  [[nodiscard]] std::optional<Signature> own_call(std::uint64_t number) const;
  [[nodiscard]] std::optional<Error> difference_from(int rank, std::uint64_t noticed_in) const;
  [[nodiscard]] std::optional<Error> first_difference(std::uint64_t noticed_in) const;
  [[nodiscard]] Error explained(const Error& error, const HostOperation& operation) const;
  /// An error of the action says which operation it was for; a mismatch also in which operation it began.
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
  [[nodiscard]] std::shared_ptr<HostOperation> told_to(const Collective& collective);
  void enqueue(HostOperation& operation);
  void note_call(HostOperation& operation);
  void wait_for_leavers();
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
  /// Whether nobody who waits goes so long without a look.
  [[nodiscard]] bool is_long(Clock::duration gap) const { return gap > options_.deadline / 10; }
  [[nodiscard]] bool is_unreported(const std::exception_ptr& error) const;
  void poison(std::exception_ptr error) noexcept;
  void fail(std::exception_ptr error) noexcept;
  [[nodiscard]] std::shared_ptr<HostOperation> idle_operation(CollectiveKind kind);
  [[nodiscard]] std::shared_ptr<HostOperation> kept_operation(CollectiveKind kind);
  [[nodiscard]] std::shared_ptr<HostOperation> new_operation(CollectiveKind kind);

  Capabilities capabilities_;
  Options options_;
  Progress* progress_;
  std::vector<int> asked_;  // whom the last question was for; kept, as a step of training that waits allocates nothing
  using Pool = std::vector<std::shared_ptr<HostOperation>>;
  Pool pool_;
  Pool message_pool_;
  Pool kept_;                              // of prepared operations
  std::vector<HostOperation*> under_way_;  // without messages, in the order of submission
  std::vector<HostOperation*> messages_under_way_;
  std::size_t begun_of_those_ = 0;  // the first ones
  std::uint64_t begun_ = 0;         // operations begun so far
  int next_position_ = 0;
  std::uint64_t submitted_ = 0;                   // without messages
  static constexpr std::size_t remembered = 256;  // by how many operations ranks that compare theirs may be apart
  std::array<Signature, remembered> calls_{};
  std::uint64_t chain_ = 0;  // the hash of the last of them
  Clock::time_point last_heed_;
  Clock::time_point last_check_;
  Clock::time_point last_look_at_peers_;
  Blame blame_;
  std::exception_ptr poison_;
  bool closed_ = false;
};

}  // namespace lockstep::backends
