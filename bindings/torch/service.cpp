// SPDX-License-Identifier: Apache-2.0
#include "service.hpp"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <future>
#include <utility>

namespace lockstep::bindings {

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
}

void Service::drain(const std::shared_ptr<ServedGroup>& group) {
  auto last = c10::make_intrusive<TorchWork>(-1, c10d::OpType::UNKNOWN, std::vector<at::Tensor>());
  submit(
      group, [](Communicator&) { return std::vector<Work>(); }, nullptr, last, false);
  last->wait(kNoTimeout);
}

void Service::help(TorchWork& work, std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&] { return timeout != kNoTimeout && std::chrono::steady_clock::now() - begin > timeout; };
  {
    const std::scoped_lock lock(mutex_);
    ++helpers_;
  }
  while (!work.isCompleted() && !is_late()) {
    bool moved = false;
    if (std::unique_lock lock(advancing_, std::try_to_lock); lock) moved = advance_all();
    if (!moved) std::this_thread::yield();
  }
  const std::scoped_lock lock(mutex_);
  if (--helpers_ == 0 && open_ > 0) wake_.notify_one();
}

void Service::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return open_ > 0 && helpers_ == 0; });
    }
    bool moved = false;
    {
      const std::scoped_lock lock(advancing_);
      moved = advance_all();
    }
    if (!moved) std::this_thread::yield();
  }
}

/// Submits what is queued, and ends what is done. @return whether there was anything
bool Service::advance_all() {
  std::deque<Task> tasks;
  {
    const std::scoped_lock lock(mutex_);
    tasks.swap(queue_);
  }
  bool moved = !tasks.empty();
  for (Task& task : tasks) start(std::move(task));
  for (const auto& group : busy_) moved |= advance(*group);
  std::erase_if(busy_, [](const auto& group) { return group->pending.empty(); });
  return moved;
}

void Service::note_end() {
  const std::scoped_lock lock(mutex_);
  --open_;
}

void Service::start(Task task) {
  ServedGroup::Pending operation{std::move(task.submit), {}, std::move(task.complete), std::move(task.work)};
  try {
    const auto turn = task.group->group->take_turn();
    operation.parts = operation.submit(task.group->group->communicator());
  } catch (const std::exception& error) {
    note_end();
    operation.work->end(torch_error(error));
    return;
  }
  task.group->pending.push_back(std::move(operation));
  if (std::find(busy_.begin(), busy_.end(), task.group) == busy_.end()) busy_.push_back(std::move(task.group));
}

/// Ends the oldest operations of a group that are done. @return whether there were any
bool Service::advance(ServedGroup& group) {
  bool moved = false;
  while (!group.pending.empty()) {
    ServedGroup::Pending& oldest = group.pending.front();
    std::exception_ptr failure;
    try {
      const auto turn = group.group->take_turn();
      if (!std::all_of(oldest.parts.begin(), oldest.parts.end(), [](Work& part) { return part.test(); })) return moved;
      for (Work& part : oldest.parts) part.wait();
      if (oldest.complete) oldest.complete();
    } catch (const std::exception& error) {
      failure = torch_error(error);
      group.has_failed = true;
    }
    const auto work = std::move(oldest.work);
    group.pending.pop_front();
    note_end();
    work->end(failure);
    moved = true;
  }
  return moved;
}

}  // namespace lockstep::bindings
