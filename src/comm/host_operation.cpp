// SPDX-License-Identifier: Apache-2.0
#include "comm/host_operation.hpp"

#include <algorithm>
#include <deque>

#include "comm/host_communicator.hpp"
#include "kernels/reduce.hpp"

namespace lockstep {

void HostOperation::describe(const Collective& collective) {
  name_after(collective);
  averaged_ = is_reduction(collective.kind) && collective.op == ReduceOp::average ? collective.out : Buffer();
}

void HostOperation::submit(Clock::time_point now, FlightRecorder* recorder) {
  restart_at(now, recorder);
  begun_ = false;
  has_advanced_ = true;
}

/// Ends the operation. Dividing the result in place is safe, because no rank reads another rank's result after its own
/// operation has ended.
void HostOperation::complete() {
  if (averaged_.count > 0) kernels::divide(averaged_, owner_->size());
  Operation::complete();
}

void HostOperation::poll() noexcept { owner_->poll(*this); }

void HostOperation::belong_to(HostCommunicator& owner) {
  owner_ = &owner;
  set_rank(owner.rank());
}

ErrorContext HostOperation::context() const {
  ErrorContext context = identity();
  if (begun_) add_pending(context);
  return context;
}

/// A prepared operation. It holds one operation object that is already set up, or a few, because a finished one may
/// still be queued behind others that have not finished.
class HostCommunicator::Kept final : public Preparation {
 public:
  Kept(HostCommunicator& owner, const Collective& collective)
      : owner_(&owner), collective_(collective), label_(collective.label) {
    collective_.label = label_;
    counts_.keep(collective_);
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
    std::optional<Work> work;  // set by its first start
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
  std::deque<Entry> entries_;  // a deque, so that addresses stay valid
};

std::unique_ptr<Preparation> HostCommunicator::make_preparation(const Collective& collective) {
  const Progress::Exclusive exclusive(*progress_);
  check_usable(name(collective.kind));
  return std::make_unique<Kept>(*this, collective);
}

}  // namespace lockstep
