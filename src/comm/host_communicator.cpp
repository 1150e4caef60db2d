// SPDX-License-Identifier: Apache-2.0
#include "comm/host_communicator.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "comm/farewell.hpp"
#include "comm/kept_counts.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

/// An error of the action says which operation it was for.
template <typename Action>
auto on_behalf_of(const HostOperation& operation, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw error.of_operation(operation.identity());
  }
}

}  // namespace

HostCommunicator::HostCommunicator(Rank rank, int size, Progress& progress, Options options)
    : Communicator(rank, size),
      capabilities_{
          .backend = options.backend, .no_reduce_then = options.no_reduce_then, .no_average = options.no_average},
      options_(std::move(options)),
      progress_(&progress) {
  asked_.reserve(static_cast<std::size_t>(size));
}

HostCommunicator::~HostCommunicator() { progress_->remove(*this); }

void HostCommunicator::park(std::shared_ptr<void> thing) {
  static std::mutex mutex;
  static auto* const parked = new std::vector<std::shared_ptr<void>>;  // for as long as the process lives
  const std::scoped_lock lock(mutex);
  parked->push_back(std::move(thing));
}

bool HostCommunicator::depart() noexcept {
  progress_->remove(*this);  // before anything is taken apart that a progress thread might use
  if (closed_) return true;
  const bool is_unwinding = std::uncaught_exceptions() > 0;
  if (!is_unwinding) {
    progress_->say("rank " + std::to_string(rank().value) + ": a communicator (" + std::string(options_.backend) +
                   ") was destroyed without close(); its resources stay in use");
  }
  // Neither who waits here nor who waits elsewhere must wait for ever for what nobody moves any more.
  const Error error(ErrorCode::transport,
                    std::string("the communicator was destroyed before close()") +
                        (is_unwinding ? ", as an exception went through the program" : ""),
                    {.rank = rank().value, .host = options_.hostname});
  if (!poison_) poison(std::make_exception_ptr(error));
  {
    const Progress::Exclusive exclusive(*progress_);  // who looks after other communicators of MPI's
    tell_now();
  }
  for (auto* const all : {&pool_, &message_pool_, &kept_})
    for (auto& operation : *all) park(std::move(operation));
  if (options_.control) park(options_.control);
  return false;
}

/// It may be the last that is heard of this rank.
void HostCommunicator::tell_now() noexcept {
  if (options_.control) options_.control->tell_now();
}

void HostCommunicator::abort(std::string_view why) noexcept {
  if (!options_.control) return;
  options_.control->raise(ErrorCode::transport, why, {});
  if (!progress_->is_known_to_be_of_this_thread()) return;
  const Progress::Exclusive exclusive(*progress_);
  tell_now();
}

void HostCommunicator::raise(const std::exception_ptr& error) noexcept {
  if (options_.control) options_.control->raise(error);
}

void HostCommunicator::close() {
  const Progress::Exclusive exclusive(*progress_);
  if (closed_) return;
  check_usable("close");
  if (const HostOperation* const first = first_under_way()) {
    throw Error(ErrorCode::invalid_argument, "close() while an operation is under way: wait for its Work first",
                first->context());
  }
  if (options_.control) options_.control->leave(submitted_);
  release();
  closed_ = true;
  if (options_.control) close_when_all_have_left(options_.control, *progress_);
}

Work HostCommunicator::submit(const Collective& collective) {
  check_thread(name(collective.kind));
  const Progress::Exclusive exclusive(*progress_);
  check_usable(name(collective.kind));
  std::shared_ptr<HostOperation> operation = told_to(collective);
  enqueue(*operation);
  return {std::move(operation), *progress_};
}

/// None is enqueued before all have been told what to do, as which may fail.
std::vector<Work> HostCommunicator::submit_group(std::span<const Collective> members) {
  check_thread("group");
  const Progress::Exclusive exclusive(*progress_);
  if (members.empty()) return {};
  check_usable("group");
  std::vector<std::shared_ptr<HostOperation>> operations;
  for (const Collective& member : members) operations.push_back(told_to(member));
  std::vector<Work> works;
  works.reserve(members.size());
  for (const auto& operation : operations) {
    enqueue(*operation);
    works.emplace_back(operation, *progress_);
  }
  return works;
}

std::shared_ptr<HostOperation> HostCommunicator::told_to(const Collective& collective) {
  std::shared_ptr<HostOperation> operation = idle_operation(collective.kind);
  operation->describe(collective);
  prepare(*operation, collective);
  return operation;
}

void HostCommunicator::enqueue(HostOperation& operation) {
  operation.submit(options_.observer != nullptr ? progress_->now() : Clock::time_point());
  if (poison_) return operation.abandon(poison_);  // by a member of its group that came before
  operation.set_under_way(true);
  const bool takes_turn = !is_message(operation.kind());
  (takes_turn ? under_way_ : messages_under_way_).push_back(&operation);
  try {
    if (takes_turn) {
      calls_[submitted_++ % remembered] = operation.signature();
      start_next();
    } else {
      on_behalf_of(operation, [&] { operation.begin({}); });
    }
  } catch (...) {
    fail(current_exception_of(rank().value, options_.hostname));
  }
}

template <typename Action>
void HostCommunicator::for_all_under_way(const Action& action) {
  for (HostOperation* const operation : messages_under_way_) action(*operation);
  for (HostOperation* const operation : under_way_) action(*operation);
}

const HostOperation* HostCommunicator::first_under_way() const {
  if (!under_way_.empty()) return under_way_.front();
  return messages_under_way_.empty() ? nullptr : messages_under_way_.front();
}

/// An operation object of its own that has been told what to do, or a few: one that has ended may still be among those
/// under way, behind others that have not.
class HostCommunicator::Kept final : public Preparation {
 public:
  Kept(HostCommunicator& owner, const Collective& collective)
      : owner_(&owner), collective_(collective), label_(collective.label) {
    collective_.label = label_;
    counts_.keep(collective_);
    if (collective.function != nullptr) function_ = *collective.function;
    if (collective.function != nullptr) collective_.function = &function_;
    add();
  }

  Work& start(Queue queue) override {
    owner_->check_thread(name(collective_.kind));
    const Progress::Exclusive exclusive(*owner_->progress_);
    if (!queue.is_host()) owner_->check_queue(collective_, queue);
    owner_->check_usable(name(collective_.kind));
    Entry& entry = idle();
    owner_->enqueue(*entry.operation);
    if (!entry.work) entry.work.emplace(entry.operation, *owner_->progress_);
    return *entry.work;
  }

 private:
  struct Entry {
    std::shared_ptr<HostOperation> operation;
    std::optional<Work> work;  // from its first start on
  };

  void add() {
    const std::shared_ptr<HostOperation> operation = owner_->kept_operation(collective_.kind);
    operation->describe(collective_);
    owner_->prepare(*operation, collective_);
    entries_.push_back({operation, std::nullopt});
  }
  Entry& idle() {
    if (!entries_.front().operation->is_under_way()) return entries_.front();
    const auto is_idle = [](const Entry& entry) { return !entry.operation->is_under_way(); };
    const auto found = std::find_if(entries_.begin(), entries_.end(), is_idle);
    if (found != entries_.end()) return *found;
    add();
    return entries_.back();
  }

  HostCommunicator* owner_;
  Collective collective_;
  std::string label_;
  KeptCounts counts_;
  SliceFunction function_;
  std::deque<Entry> entries_;  // whose addresses stay
};

std::unique_ptr<Preparation> HostCommunicator::make_preparation(const Collective& collective) {
  const Progress::Exclusive exclusive(*progress_);
  check_usable(name(collective.kind));
  return std::make_unique<Kept>(*this, collective);
}

void HostCommunicator::check_thread(std::string_view operation) const {
  if (progress_->is_of_this_thread()) return;
  throw Error(
      ErrorCode::invalid_argument,
      "submitted on another thread than the one that uses this rank's communicators: all of them, and the groups "
      "split from each other, are for one thread",
      {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
}

/// Before anything is sent: whether this rank can go on, as far as it knows. The word of its node is looked at always,
/// for messages no more often than a clock allows.
void HostCommunicator::check_usable(std::string_view operation) {
  if (closed_) {
    throw Error(ErrorCode::transport, "the communicator is closed",
                {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
  }
  constexpr std::chrono::milliseconds between_messages{5};
  if (options_.control && !poison_) {
    if (options_.control->heard() || (options_.control->has_post() && progress_->now() - last_heed_ > between_messages))
      look_round(progress_->now());
  }
  if (poison_) std::rethrow_exception(poison_);
}

bool HostCommunicator::idle() const noexcept { return first_under_way() == nullptr || poison_ != nullptr; }

bool HostCommunicator::progress() noexcept {
  if (idle()) return false;
  try {
    return advance_all();
  } catch (...) {
    fail(current_exception_of(rank().value, options_.hostname));
  }
  return true;
}

void HostCommunicator::poll(HostOperation& operation) noexcept {
  if (!operation.begun()) return;
  try {
    if (on_behalf_of(operation, [&] { return operation.advance(); })) start_next();
  } catch (...) {
    fail(current_exception_of(rank().value, options_.hostname));
  }
}

bool HostCommunicator::look_round(Clock::time_point now) noexcept {
  if (closed_) return false;
  try {
    heed(now);
    if (!idle()) check_deadline(now);
    return false;
  } catch (...) {
    if (!poison_) fail(current_exception_of(rank().value, options_.hostname));
  }
  return true;
}

/// Passes on what there is to tell. @throws Error if that ends this communicator
void HostCommunicator::heed(Clock::time_point now) {
  if (!options_.control) return;
  last_heed_ = now;
  options_.control->tend();
  if (poison_) return;
  std::optional<Error> alarm = options_.control->heard();
  if (!alarm) alarm = options_.control->early_close(submitted_);
  if (!alarm) {
    std::erase_if(options_.control->questions(), [this](const auto& question) { return is_answered(question); });
    return;
  }
  const HostOperation* const first = first_under_way();
  if (first == nullptr) throw Error(*alarm);
  // Who gives up first need not have waited for the rank at fault: each names whom it waited for itself.
  throw alarm->naming_also(awaited()).of_operation(first->identity());
}

/// The oldest that takes turns and has not ended; null where there is none.
HostOperation* HostCommunicator::oldest_pending() const {
  const auto is_pending = [](const HostOperation* o) { return o->state() == Operation::State::pending; };
  const auto oldest = std::find_if(under_way_.begin(), under_way_.end(), is_pending);
  return oldest == under_way_.end() || !(*oldest)->begun() ? nullptr : *oldest;
}

/// The ranks that the oldest operation waits for, and messages. What younger operations wait for may wait for that.
std::vector<int> HostCommunicator::awaited() const {
  std::vector<int> ranks;
  if (const HostOperation* const oldest = oldest_pending()) oldest->add_awaited(ranks);
  for (const HostOperation* const message : messages_under_way_)
    if (message->state() == Operation::State::pending) message->add_awaited(ranks);
  return ranks;
}

/// Whether what another rank has asked is of no more interest. @throws Error{mismatch} if it calls something else
bool HostCommunicator::is_answered(const ControlChannel::Question& question) const {
  const ControlChannel::Call& theirs = question.call;
  if (theirs.number >= submitted_) return false;
  if (submitted_ - theirs.number > remembered) return true;
  const Signature& ours = calls_[theirs.number % remembered];
  if (ours.hash == theirs.hash || ours.hash == 0) return true;
  const auto kind = static_cast<CollectiveKind>(ours.call & 0xfU);
  throw disagreement(question.rank, {.call = theirs.what, .hash = theirs.hash}, ours)
      .of_operation({.operation = std::string(name(kind))});
}

/// Who waits in vain asks those whom it waits for whether they call the same.
/// @param since  when the oldest operation must not have advanced
void HostCommunicator::ask(Clock::time_point since) {
  HostOperation* const oldest = oldest_pending();
  if (!options_.control || oldest == nullptr || !oldest->is_silent_since(since)) return;
  const Signature& ours = oldest->signature();
  if (ours.hash == 0 || oldest->has_asked()) return;
  asked_.clear();
  on_behalf_of(*oldest, [&] { oldest->add_awaited(asked_); });
  const auto place = std::find(under_way_.begin(), under_way_.end(), oldest) - under_way_.begin();
  const std::uint64_t number = submitted_ - under_way_.size() + static_cast<std::uint64_t>(place);
  options_.control->ask({.number = number, .what = ours.call, .hash = ours.hash}, asked_);
}

void HostCommunicator::check_peers() {
  if (!options_.control) return;
  if (const auto error = options_.control->ended_peer()) throw Error(*error);
}

bool HostCommunicator::sleep(std::chrono::nanoseconds at_most) noexcept {
  bool all_are_woken = true;
  for_all_under_way([&](const HostOperation& operation) {
    const bool waits = operation.begun() && operation.state() == Operation::State::pending;
    if (waits && !operation.is_woken()) all_are_woken = false;
  });
  if (!all_are_woken) return false;
  constexpr int looks_before_the_deadline = 20;
  const auto deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(options_.deadline);
  if (!sleep_unless([this] { return progress(); }, std::min(at_most, deadline / looks_before_the_deadline)))
    return false;
  last_check_ = progress_->now();  // to sleep is to wait, not to be away
  return true;
}

bool HostCommunicator::advance_all() {
  bool moved = false;
  for_all_under_way([&](HostOperation& operation) {
    if (operation.begun() && operation.state() == Operation::State::pending)
      moved |= on_behalf_of(operation, [&] { return operation.advance(); });
  });
  if (moved) start_next();
  return moved;
}

/// Lets go of the operations that are done, in their order; of messages in any.
void HostCommunicator::retire() {
  const auto is_done = [this](HostOperation* operation) {
    if (operation->state() != Operation::State::done) return false;
    if (options_.observer != nullptr) options_.observer->span(operation->span(progress_->now()));
    operation->set_under_way(false);
    return true;
  };
  while (!under_way_.empty() && is_done(under_way_.front())) {
    under_way_.erase(under_way_.begin());
    --begun_of_those_;
  }
  if (!messages_under_way_.empty()) std::erase_if(messages_under_way_, is_done);
}

/// Retires what is done and begins what may begin. A slot's next operation begins only after the one before it has
/// ended here, and slots are given out in turn: so on all ranks the same operations share a slot, in the same order.
void HostCommunicator::start_next() {
  retire();
  const auto width = static_cast<std::size_t>(options_.operations_in_flight);
  while (begun_of_those_ < std::min(under_way_.size(), width)) {
    HostOperation& next = *under_way_[begun_of_those_++];
    const HostOperation::Turn turn{next_slot_, begun_++};
    if (++next_slot_ == options_.operations_in_flight) next_slot_ = 0;
    on_behalf_of(next, [&] { next.begin(turn); });
    if (next.state() == Operation::State::done) retire();
  }
}

/// Only time during which this rank polled counts: one that was busy elsewhere has not waited for anybody.
void HostCommunicator::check_deadline(Clock::time_point now) {
  const bool was_away = now - last_check_ > options_.deadline / 10;
  last_check_ = now;
  constexpr std::chrono::milliseconds between_looks{20};
  const bool looks = now - last_look_at_peers_ > between_looks;
  if (looks) {
    last_look_at_peers_ = now;
    check_peers();
  }
  for_all_under_way([&](HostOperation& operation) {
    if (!operation.begun() || operation.state() != Operation::State::pending) return;
    if (was_away) operation.mark_advance();
    const std::chrono::duration<double> silent = operation.silence(now);
    if (silent < options_.deadline) return;
    char text[128];
    std::snprintf(text, sizeof text,
                  "nothing has moved for %.2f s: is the peer alive, and does it submit the same operations?",
                  silent.count());
    throw Error(ErrorCode::timeout, text, operation.context()).naming_also(awaited());
  });
  if (looks) ask(now - between_looks);
}

void HostCommunicator::poison(std::exception_ptr error) noexcept {
  poison_ = std::move(error);
  for_all_under_way([this](HostOperation& operation) {
    if (operation.state() == Operation::State::pending) operation.abandon(poison_);
  });
  raise(poison_);
}

/// Also sends what there is to tell: whoever catches the error may never poll again.
void HostCommunicator::fail(std::exception_ptr error) noexcept {
  poison(std::move(error));
  tell_now();
}

/// The first operation that nobody holds any more. So a step that submits the same operations as the one before gets
/// the same objects in the same order, with memory of the right size.
std::shared_ptr<HostOperation> HostCommunicator::idle_operation(CollectiveKind kind) {
  retire();
  Pool& pool = is_message(kind) ? message_pool_ : pool_;
  for (const auto& operation : pool) {
    if (!operation->is_under_way() && operation.use_count() == 1) return operation;
  }
  pool.push_back(new_operation(kind));
  return pool.back();
}

std::shared_ptr<HostOperation> HostCommunicator::new_operation(CollectiveKind kind) {
  std::shared_ptr<HostOperation> operation = make_operation(kind);
  operation->belong_to(*this);
  under_way_.reserve(pool_.size() + kept_.size() + 1);
  messages_under_way_.reserve(message_pool_.size() + kept_.size() + 1);
  return operation;
}

/// One that nobody else gets as long as somebody holds it.
std::shared_ptr<HostOperation> HostCommunicator::kept_operation(CollectiveKind kind) {
  std::erase_if(kept_, [](const auto& operation) { return !operation->is_under_way() && operation.use_count() == 1; });
  kept_.push_back(new_operation(kind));
  return kept_.back();
}

}  // namespace lockstep::backends
