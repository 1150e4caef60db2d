// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/process_group.hpp"

#include <algorithm>
#include <exception>
#include <mutex>

#include "backends/make_communicator.hpp"
#include "base/borders.hpp"
#include "base/origin_process.hpp"
#include "collectives/choice/selection.hpp"
#include "comm/back_end.hpp"
#include "comm/progress_thread.hpp"
#include "ddp/members.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/ranks/open_groups.hpp"
#include "platform/ranks/thread_ranks.hpp"

namespace lockstep {

std::span<const std::string_view> algorithm_names() { return backends::method_names(); }

namespace {

/// The progress engine of a group and of the groups split from it.
struct Engine {
  /// A nap takes longer than a yield, so the thread polls more often before it, but not where ranks share processors.
  static ProgressThreadOptions thread_options(int spins) {
    ProgressThreadOptions thread;
    thread.spins_before_nap = spins == 0 ? 0 : std::max(spins, thread.spins_before_nap);
    return thread;
  }
  explicit Engine(const GroupOptions& options) : progress(options.wait, nullptr, options.notice) {
    if (options.progress_thread) thread.emplace(progress, thread_options(options.wait.spins_before_yield));
  }
  Progress progress;
  std::optional<ProgressThread> thread;
  std::recursive_mutex turn;  // held by the thread whose turn it is
};

/// The communicators and split groups that the abort of a group reaches.
class AbortReach : public std::enable_shared_from_this<AbortReach> {
 public:
  /// Aborts this communicator, too, until it is destroyed.
  void add(Communicator& communicator) {
    const std::scoped_lock lock(mutex_);
    communicators_.push_back(&communicator);
    back_end_of(communicator).when_destroyed([reach = shared_from_this(), &communicator] {
      reach->remove(communicator);
    });
  }
  void add(const std::shared_ptr<AbortReach>& part) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(parts_, [](const auto& other) { return other.expired(); });
    parts_.push_back(part);
  }

  /// Aborts all communicators. Any thread may call it.
  void abort(std::string_view why) noexcept {
    const std::scoped_lock lock(mutex_);
    for (Communicator* const communicator : communicators_) communicator->abort(why);
    for (const auto& part : parts_)
      if (const auto reach = part.lock()) reach->abort(why);
  }

 private:
  void remove(const Communicator& communicator) {
    const std::scoped_lock lock(mutex_);
    std::erase(communicators_, &communicator);
  }

  std::mutex mutex_;
  std::vector<Communicator*> communicators_;
  std::vector<std::weak_ptr<AbortReach>> parts_;
};

}  // namespace

struct ProcessGroup::State final : OpenGroup {
  /// @param open_groups_in  the open groups of the World that the ranks belong to; null if there is none
  State(std::unique_ptr<ddp::Members> members_in, GroupOptions options_in,
        std::shared_ptr<OpenGroups> open_groups_in = nullptr, std::shared_ptr<Engine> engine_in = nullptr)
      : options(std::move(options_in)),
        engine(engine_in ? std::move(engine_in) : std::make_shared<Engine>(options)),
        members(std::move(members_in)),
        communicator(make(ddp::Members::Use::first)),
        open_groups(std::move(open_groups_in)) {
    if (engine.use_count() == 1) engine->progress.record_in(members->recorder());
    reach->add(*communicator);
    if (open_groups) open_groups->add(*this);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Closes the group at the normal end of a scope. If closing fails, or an exception is propagating, the destructors
  /// of the communicators make the operations of the other ranks fail.
  ~State() override {
    if (open_groups) open_groups->remove(*this);
    if (std::uncaught_exceptions() > 0 || members->has_ended()()) return;
    try {
      close();
    } catch (const Error& error) {
      // A usage error of the program is kept and reported. Other failures have been thrown before, or on other ranks.
      const bool is_mistake = error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::mismatch;
      if (open_groups && is_mistake && !error.is_consequence()) open_groups->keep(std::current_exception());
    } catch (const std::exception&) {  // the communicators are destroyed without close(), so the other ranks fail
    }
  }

  /// Creates the device communicator first, because NCCL may be missing, and a host communicator that was already made
  /// would have to be closed.
  [[nodiscard]] std::unique_ptr<Communicator> make(ddp::Members::Use use) const {
    std::unique_ptr<Communicator> on_device;
    if (options.device == Device::cuda) on_device = members->make_on_device(engine->progress, use);
    auto on_host = members->make(engine->progress, use);
    return on_device ? backends::make_routed(std::move(on_host), std::move(on_device)) : std::move(on_host);
  }

  /// @throws Error{invalid_argument} in a child of the process that made the group
  void check_process() const {
    if (!origin.is_here())
      origin.require_here("the group", {.rank = communicator->rank().value, .host = members->host()});
  }

  void close() override {
    check_process();
    members->check_may_close();
    if (engine.use_count() == 1) engine->thread.reset();  // otherwise other groups of this engine still use the thread
    communicator->close();
    if (control) control->close();
    members->close();
    if (open_groups) open_groups->remove(*this);
  }

  void abandon(std::string_view why) noexcept override {
    engine->thread.reset();
    reach->abort(why);
  }

  OriginProcess origin;
  GroupOptions options;
  std::shared_ptr<Engine> engine;  // declared before the communicators, which are registered with its progress
  std::unique_ptr<ddp::Members> members;
  std::shared_ptr<AbortReach> reach = std::make_shared<AbortReach>();
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Communicator> control;
  std::shared_ptr<OpenGroups> open_groups;
};

ProcessGroup::ProcessGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}

ProcessGroup ddp::group_of(std::unique_ptr<Members> members, GroupOptions options,
                           std::shared_ptr<OpenGroups> open_groups) {
  return ProcessGroup(
      std::make_unique<ProcessGroup::State>(std::move(members), std::move(options), std::move(open_groups)));
}

ProcessGroup::ProcessGroup(RankSet group, GroupOptions options)
    : state_(std::make_unique<State>(ddp::members_of(std::move(group), options), std::move(options))) {}

std::vector<ProcessGroup> ProcessGroup::of_threads(int ranks, const GroupOptions& options) {
  if (options.device != Device::cpu) {
    ddp::require_device(options.device);
    throw Error(ErrorCode::unsupported,
                "threads of one process are ranks of the device cpu only: for cuda, make the group of processes");
  }
  std::vector<RankSet> sets = from_threads(ranks, options.deadline);
  std::vector<std::optional<ProcessGroup>> made(sets.size());
  on_each_thread(ranks, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    made[index].emplace(std::move(sets[index]), options);
  });
  std::vector<ProcessGroup> groups;
  for (std::optional<ProcessGroup>& group : made) groups.push_back(*std::move(group));
  return groups;
}

ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept {
  const ProcessGroup before(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
ProcessGroup::~ProcessGroup() {
  if (state_ && !state_->origin.is_here()) keep_in_child(std::move(state_));
}

std::string ProcessGroup::explain_ranks() const { return state_->members->explain_ranks(); }

const std::string& ProcessGroup::host() const { return state_->members->host(); }
std::chrono::duration<double> ProcessGroup::deadline() const { return state_->options.deadline; }

std::optional<int> ProcessGroup::gpu() const {
  return state_->options.device == Device::cuda ? state_->members->gpu() : std::nullopt;
}
Communicator& ProcessGroup::communicator() const { return *state_->communicator; }
Progress& ProcessGroup::progress() const { return state_->engine->progress; }

std::string ProcessGroup::explain(CollectiveKind kind, std::span<const Bytes> sizes, std::size_t columns) const {
  const ErrorContext context{.operation = "explain", .rank = rank().value, .host = host()};
  if (!is_valid(kind) || is_message(kind))
    throw Error(ErrorCode::invalid_argument,
                "the kind of operation is " + std::string(lockstep::name(kind)) +
                    ", for which no algorithm is chosen: name a collective operation",
                context);
  for (const Bytes size : sizes)
    if (size < 0)
      throw Error(ErrorCode::invalid_argument, "a buffer of " + std::to_string(size.value) + " bytes", context);
  if (const auto* const selection = state_->members->selection())
    return collectives::explain(*selection, kind, sizes, state_->options.tuning, columns);
  return "# " + std::string(lockstep::name(kind)) + " on " + std::to_string(size()) +
         " ranks: the MPI library chooses, which does not say how\n";
}

Communicator& ProcessGroup::control() {
  if (!state_->control) {
    state_->check_process();
    if (!progress().is_of_this_thread())  // first, because making the communicator is collective
      throw Error(ErrorCode::invalid_argument, std::string(on_another_thread), {.rank = rank().value, .host = host()});
    state_->control = state_->members->make(progress(), ddp::Members::Use::further);
    state_->reach->add(*state_->control);
  }
  return *state_->control;
}

void ProcessGroup::reduce(Buffer elements, ReduceOp op) {
  control().all_reduce(elements, elements, op, Queue::host(), "group." + std::string(name(op))).wait();
}

void ProcessGroup::broadcast(Buffer elements, Rank root) {
  control().broadcast(elements, root, Queue::host(), "group.broadcast").wait();
}

std::unique_ptr<Communicator> ProcessGroup::new_communicator() {
  state_->check_process();
  auto communicator = state_->make(ddp::Members::Use::further);
  back_end_of(*communicator).close_when_destroyed([ended = state_->members->has_ended()] { return !ended(); });
  state_->reach->add(*communicator);
  return communicator;
}

std::optional<ProcessGroup> ProcessGroup::split(std::optional<int> color, int key) {
  return split(color, key, state_->options);
}

std::optional<ProcessGroup> ProcessGroup::split(std::optional<int> color, int key, const GroupOptions& options) {
  if (color && *color < 0) {
    throw Error(ErrorCode::invalid_argument,
                "the color " + std::to_string(*color) + ": colors are not negative; give none to join no group",
                {.rank = rank().value, .host = host()});
  }
  state_->check_process();
  auto part = state_->members->split(color, key, options);
  if (!part) return std::nullopt;
  auto state = std::make_unique<State>(std::move(part), options, state_->open_groups, state_->engine);
  state_->reach->add(state->reach);
  return ProcessGroup(std::move(state));
}

ProcessGroup::Turn ProcessGroup::take_turn() const {
  state_->check_process();
  Progress& owned = progress();
  if (!owned.is_known_to_be_of_this_thread() && !state_->members->may_change_threads())
    throw Error(ErrorCode::unsupported,
                "a group is used on another thread than the one that made it, for which MPI has to be initialized with "
                "MPI_THREAD_SERIALIZED at least: ask for that level, or use it on that thread",
                {.rank = rank().value, .host = host()});
  return {state_->engine->turn, owned};
}

void ProcessGroup::abort(std::string_view why) noexcept {
  if (state_->origin.is_here()) state_->reach->abort(why);
}

void ProcessGroup::close() { state_->close(); }

}  // namespace lockstep
