// SPDX-License-Identifier: Apache-2.0
#include "service.hpp"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <future>
#include <utility>

namespace lockstep::bindings {
namespace {

// Most operations end while the thread that waits for them polls. Where they do not, because another rank is late, it
// rests between two polls, so that the processor is left to others: for a small part of the time that it has waited, by
// which it then learns of the end too late at most.
constexpr std::chrono::microseconds rests_after{200};
constexpr int rest_fraction = 8;
constexpr std::chrono::milliseconds longest_rest{1};

}  // namespace

std::exception_ptr torch_error(const std::exception& error) {
  return std::make_exception_ptr(c10::DistBackendError({"lockstep", "lockstep_torch", 0}, error.what()));
}

TorchWork::TorchWork(int rank, c10d::OpType type, std::vector<at::Tensor> results)
    : c10d::Work(rank, type),
      results_(std::move(results)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

bool TorchWork::wait(std::chrono::milliseconds timeout) {
  Service::instance().help(*this, timeout);
  return c10d::Work::wait(timeout);
}

void TorchWork::end(const std::exception_ptr& error) {
  finish(error);
  error == nullptr ? future_->markCompleted(c10::IValue(results_)) : future_->setError(error);
}

Service& Service::instance() {
  static auto* const service = new Service;
  return *service;
}

Service::Service() {
  std::thread([this] { run(); }).detach();
}

void Service::submit(const std::shared_ptr<ServedGroup>& group, Submit submit, std::function<void()> complete,
                     c10::intrusive_ptr<TorchWork> work, bool is_async) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back({group, std::move(submit), std::move(complete), std::move(work)});
    ++open_;
  }
  if (is_async) wake_.notify_one();
  rested_.notify_all();
}

void Service::drain(const std::shared_ptr<ServedGroup>& group) {
  auto last = c10::make_intrusive<TorchWork>(-1, c10d::OpType::UNKNOWN, std::vector<at::Tensor>());
  submit(
      group, [](Communicator&) { return std::vector<Work>(); }, nullptr, last, false);
  last->wait(kNoTimeout);
}

void Service::wait_until_idle() {
  constexpr std::chrono::seconds at_most{2};  // operations of groups that have failed may never end
  std::unique_lock lock(mutex_);
  rested_.wait_for(lock, at_most, [this] { return open_ == 0; });
}

void Service::help(TorchWork& work, std::chrono::milliseconds timeout) {
  Waiting waiting;
  const auto begin = waiting.since;
  const auto is_late = [&] { return timeout != kNoTimeout && Clock::now() - begin > timeout; };
  {
    const std::scoped_lock lock(mutex_);
    ++helpers_;
  }
  while (!work.isCompleted() && !is_late())
    advance_or_rest(std::unique_lock(advancing_, std::try_to_lock), waiting, [&] { return work.isCompleted(); });
  const std::scoped_lock lock(mutex_);
  if (--helpers_ == 0 && open_ > 0) wake_.notify_one();
}

void Service::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return open_ > 0 && helpers_ == 0; });
    }
    Waiting waiting;
    const auto is_over = [this] { return open_ == 0 || helpers_ > 0; };
    for (bool over = false; !over;) {
      advance_or_rest(std::unique_lock(advancing_), waiting, is_over);
      const std::scoped_lock lock(mutex_);
      over = is_over();
    }
  }
}

/// Polls once if the thread has the lock, and yields or rests after polls in vain. Operations that are submitted end a
/// rest at once.
/// @param is_over  whether there is nothing to wait for any more; called with `mutex_` locked
void Service::advance_or_rest(std::unique_lock<std::mutex> advancing, Waiting& waiting,
                              const std::function<bool()>& is_over) {
  const auto waited = Clock::now() - waiting.since;
  const bool rests = waited >= rests_after;
  std::vector<Ended> ended;
  const bool moved = advancing && advance_all(rests, ended);
  if (advancing) advancing.unlock();
  for (Ended& each : ended) {
    each.work->end(each.failure);  // unlocked, because callbacks of futures may wait for operations
    each = {};                     // Python's objects, before the operation counts as ended
    note_end();
  }
  if (moved) {
    waiting.since = Clock::now();
    return;
  }
  if (!rests) return std::this_thread::yield();
  std::unique_lock lock(mutex_);
  rested_.wait_for(lock, std::min<Clock::duration>(waited / rest_fraction, longest_rest),
                   [&] { return !queue_.empty() || is_over(); });
}

/// Submits what is queued, moves data, and ends what is done.
/// @param checks  whether to look for operations that have ended although nothing has moved
/// @param ended   gets the operations that have ended
/// @return whether anything has moved
bool Service::advance_all(bool checks, std::vector<Ended>& ended) {
  std::deque<Task> tasks;
  {
    const std::scoped_lock lock(mutex_);
    tasks.swap(queue_);
  }
  bool moved = !tasks.empty();
  for (Task& task : tasks) start(std::move(task), ended);
  // Large operations move data for a long time before they end, and Work::test() does not tell that.
  for (const auto& group : busy_) moved |= poll(*group);
  if (!moved && !checks) return false;
  for (const auto& group : busy_) advance(*group, ended);
  std::erase_if(busy_, [](const auto& group) { return group->pending.empty(); });
  return moved || !ended.empty();
}

bool Service::poll(ServedGroup& group) {
  try {
    const auto turn = group.group->take_turn();
    return group.group->progress().poll();
  } catch (const std::exception&) {  // `advance` gets it again, and ends an operation with it
    return true;
  }
}

void Service::note_end() {
  const std::scoped_lock lock(mutex_);
  --open_;
  if (helpers_ > 1 || open_ == 0) rested_.notify_all();  // the operation may be another helper's
}

void Service::start(Task task, std::vector<Ended>& ended) {
  ServedGroup::Pending operation{std::move(task.submit), {}, std::move(task.complete), std::move(task.work)};
  try {
    const auto turn = task.group->group->take_turn();
    operation.parts = operation.submit(task.group->group->communicator());
  } catch (const std::exception& error) {
    ended.push_back({std::move(operation.work), torch_error(error)});
    return;
  }
  task.group->pending.push_back(std::move(operation));
  if (std::find(busy_.begin(), busy_.end(), task.group) == busy_.end()) busy_.push_back(std::move(task.group));
}

/// Ends the operations of a group that are done. Collectives end in their order. Messages may end before others that
/// were called earlier, because a program may wait for them in any order.
void Service::advance(ServedGroup& group, std::vector<Ended>& ended) {
  bool waits_for_collective = false;
  for (auto operation = group.pending.begin(); operation != group.pending.end();) {
    const c10d::OpType type = operation->work->retrieveOpType();
    const bool is_collective =
        type != c10d::OpType::SEND && type != c10d::OpType::RECV && type != c10d::OpType::COALESCED;
    std::exception_ptr failure;
    try {
      const auto turn = group.group->take_turn();
      std::vector<Work>& parts = operation->parts;
      if ((is_collective && waits_for_collective) ||
          !std::all_of(parts.begin(), parts.end(), [](Work& part) { return part.test(); })) {
        waits_for_collective |= is_collective;
        ++operation;
        continue;
      }
      for (Work& part : parts) part.wait();
      if (operation->complete) operation->complete();
    } catch (const std::exception& error) {
      failure = torch_error(error);
      group.has_failed = true;
    }
    ended.push_back({std::move(operation->work), failure});
    operation = group.pending.erase(operation);
  }
}

}  // namespace lockstep::bindings
