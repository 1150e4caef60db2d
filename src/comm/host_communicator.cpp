// SPDX-License-Identifier: Apache-2.0
#include "comm/host_communicator.hpp"

#include <algorithm>

namespace lockstep {

HostCommunicator::HostCommunicator(Rank rank, int size, Progress& progress, Options options)
    : BackEnd(rank, size),
      options_(std::move(options)),
      progress_(&progress),
      wait_for_graph_(WaitForGraph::patience_for(options_.deadline)) {
  asked_.reserve(static_cast<std::size_t>(size));
}

HostCommunicator::~HostCommunicator() { progress_->remove(*this); }

void HostCommunicator::park(std::shared_ptr<void> thing) {
  static std::mutex mutex;
  static auto* const parked = new std::vector<std::shared_ptr<void>>;  // lives as long as the process
  const std::scoped_lock lock(mutex);
  parked->push_back(std::move(thing));
}

bool HostCommunicator::is_unreported(const std::exception_ptr& error) const {
  const Progress::Exclusive exclusive(*progress_);
  return progress_->unreported() == error;
}

bool HostCommunicator::depart() noexcept {
  // The program has received the error, or is its author.
  const bool is_reason_known = is_aborted_.load(std::memory_order_relaxed) || (poison_ && !is_unreported(poison_));
  progress_->remove(*this);  // first, because a progress thread might use what is destroyed next
  if (closed_) return true;
  const bool is_unwinding = std::uncaught_exceptions() > 0;
  if (!is_unwinding && !is_reason_known) {
    progress_->say("rank " + std::to_string(rank().value) + ": a communicator (" + std::string(capabilities().backend) +
                   ") was destroyed without close(); its resources stay in use");
  }
  // A wait on this rank or on another one must end, because nobody advances these operations any more.
  const Error error(ErrorCode::transport,
                    std::string("the communicator was destroyed before close()") +
                        (is_unwinding ? ", as an exception went through the program" : ""),
                    {.rank = rank().value, .host = options_.hostname});
  if (!poison_) poison(std::make_exception_ptr(error));
  {
    const Progress::Exclusive exclusive(*progress_);  // the progress thread may be polling other communicators over MPI
    if (options_.control) options_.control->tell_now();
  }
  for (auto* const all : {&pool_, &message_pool_, &kept_})
    for (auto& operation : *all) park(std::move(operation));
  if (options_.control) park(options_.control);
  return false;
}

void HostCommunicator::close() {
  const Progress::Exclusive exclusive(*progress_);
  if (closed_) return;
  check_usable("close");
  if (const HostOperation* const first = first_under_way()) {
    throw Error(ErrorCode::invalid_argument,
                "close() while an operation is under way: wait for its Work first; "
                "DataParallel::finish() waits for buckets",
                first->context());
  }
  if (!options_.control) {
    release();
    closed_ = true;
    return;
  }
  options_.control->poll_messages();
  std::optional<Error> difference = first_difference(submitted_);
  if (!difference) difference = options_.control->uneven_close(submitted_);
  if (difference) {
    const Error error = difference->of_operation({.operation = "close"});
    fail(std::make_exception_ptr(error.reported_by(rank().value, options_.hostname)));
    std::rethrow_exception(poison_);
  }
  options_.control->leave(submitted_);
  closed_ = true;
  wait_until_all_leave();
}

/// Waits a short time for the ranks of other nodes to leave, and compares their calls with those of this rank. If the
/// calls differ, the handles stay in use, because messages may arrive that nobody receives.
/// @throws Error{mismatch}
void HostCommunicator::wait_until_all_leave() {
  constexpr std::chrono::milliseconds at_most{100};
  std::optional<Error> difference;
  const auto have_left = [&] {
    const bool all = options_.control->have_all_left();
    for (const int rank : options_.control->elsewhere())
      if (!difference) difference = difference_from(rank, submitted_);
    return all || difference;
  };
  (void)progress_->wait_until(have_left, progress_->now() + at_most);
  if (!difference) release();
  close_when_all_have_left(options_.control, *progress_, std::chrono::milliseconds(0));
  if (difference) throw difference->of_operation({.operation = "close"}).reported_by(rank().value, options_.hostname);
}

Work HostCommunicator::submit(const Collective& collective) {
  const std::string_view operation_name = name(collective.kind);
  check_thread(operation_name);
  const Progress::Exclusive exclusive(*progress_);
  check_usable(operation_name);
  std::shared_ptr<HostOperation> operation = set_up(collective);
  enqueue(*operation);
  return {std::move(operation), *progress_};
}

/// Submits all members or none: each is set up first, because setting up may fail, and only then are all enqueued.
std::vector<Work> HostCommunicator::submit_group(std::span<const Collective> members) {
  check_thread("group");
  const Progress::Exclusive exclusive(*progress_);
  if (members.empty()) return {};
  check_usable("group");
  std::vector<std::shared_ptr<HostOperation>> operations;
  for (const Collective& member : members) operations.push_back(set_up(member));
  std::vector<Work> works;
  works.reserve(members.size());
  for (const auto& operation : operations) {
    enqueue(*operation);
    works.emplace_back(operation, *progress_);
  }
  return works;
}

std::shared_ptr<HostOperation> HostCommunicator::set_up(const Collective& collective) {
  std::shared_ptr<HostOperation> operation = idle_operation(collective.kind);
  operation->describe(collective);
  prepare(*operation, collective);
  return operation;
}

void HostCommunicator::enqueue(HostOperation& operation) {
  operation.submit(options_.observer != nullptr ? progress_->now() : Clock::time_point(), progress_->recorder());
  if (poison_) return operation.abandon(poison_);  // an earlier member of its group has failed
  operation.set_under_way(true);
  const bool takes_turn = !is_message(operation.kind());
  (takes_turn ? under_way_ : messages_under_way_).push_back(&operation);
  try {
    if (takes_turn) {
      note_call(operation);
      start_next();
      publish_calls();
    } else {
      on_behalf_of(operation, [&] { operation.begin({}); });
    }
  } catch (...) {
    publish_calls();
    fail(current_exception_of(rank().value, options_.hostname));
  }
}

/// Notes the call and gives it the next index. The order of submission is the same on all ranks.
void HostCommunicator::note_call(HostOperation& operation) {
  const CallSignature call = operation.follow(chain_, submitted_);
  chain_ = call.hash;
  calls_[submitted_++ % remembered] = call;
}

/// Shows other ranks the calls that they cannot see yet. A call is published after its operation has sent its first
/// messages, so that the peers, which get its signature with these, do not wait for it.
void HostCommunicator::publish_calls() {
  if (!options_.control) return;
  for (; published_ < submitted_; ++published_) {
    const CallSignature& call = calls_[published_ % remembered];
    options_.control->note_call({call.call, call.hash});
  }
}

const HostOperation* HostCommunicator::first_under_way() const {
  if (!under_way_.empty()) return under_way_.front();
  return messages_under_way_.empty() ? nullptr : messages_under_way_.front();
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

bool HostCommunicator::sleep(std::chrono::nanoseconds at_most) noexcept {
  bool all_are_woken = true;
  for_all_under_way([&](const HostOperation& operation) {
    const bool waits = operation.begun() && operation.state() == Operation::State::pending;
    if (waits && !operation.is_woken()) all_are_woken = false;
  });
  constexpr int looks_before_the_deadline = 20;
  const auto deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(options_.deadline);
  const Clock::time_point begin = progress_->now();
  if (!sleep_unless(
          all_are_woken, [this] { return progress(); }, std::min(at_most, deadline / looks_before_the_deadline)))
    return false;
  // Sleeping counts as waiting, not as being away, unless the process was stopped meanwhile.
  const Clock::time_point end = progress_->now();
  if (!is_long(end - begin)) last_check_ = end;
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

/// Releases the operations that are done: collectives in their order, messages in any order.
void HostCommunicator::retire() {
  const auto is_done = [this](HostOperation* operation) {
    if (operation->state() != Operation::State::done) return false;
    if (options_.observer != nullptr) options_.observer->span(operation->span(progress_->now()));
    operation->record_end(progress_->recorder());
    operation->set_under_way(false);
    return true;
  };
  while (!under_way_.empty() && is_done(under_way_.front())) {
    under_way_.erase(under_way_.begin());
    --begun_of_those_;
  }
  if (!messages_under_way_.empty()) std::erase_if(messages_under_way_, is_done);
}

/// Retires operations that are done and begins those that may begin. The next operation of a position begins only after
/// the previous one has ended on this rank, and positions are assigned round-robin, so the same operations share a
/// position on all ranks, in the same order.
void HostCommunicator::start_next() {
  retire();
  const auto width = static_cast<std::size_t>(options_.operations_in_flight);
  while (begun_of_those_ < std::min(under_way_.size(), width)) {
    HostOperation& next = *under_way_[begun_of_those_++];
    const HostOperation::Slot slot{next_position_, begun_++};
    if (++next_position_ == options_.operations_in_flight) next_position_ = 0;
    on_behalf_of(next, [&] { next.begin(slot); });
    if (next.state() == Operation::State::done) retire();
  }
}

/// Returns the first operation that nobody holds any more. A step that submits the same operations as the previous step
/// therefore gets the same objects in the same order, with memory of the right size.
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

/// Creates an operation that is reserved for its holder.
std::shared_ptr<HostOperation> HostCommunicator::kept_operation(CollectiveKind kind) {
  std::erase_if(kept_, [](const auto& operation) { return !operation->is_under_way() && operation.use_count() == 1; });
  kept_.push_back(new_operation(kind));
  return kept_.back();
}

}  // namespace lockstep
