// SPDX-License-Identifier: Apache-2.0
#include "nn/run/lanes.hpp"

namespace lockstep::nn {

Lanes::Lanes(int count, ops::Ops& first)
    : ops_(static_cast<std::size_t>(count), &first),
      own_ops_(ops_.size()),
      lists_(ops_.size()),
      failures_(ops_.size()),
      working_(ops_.size() - 1) {
  for (std::size_t lane = 1; lane < ops_.size(); ++lane) threads_.emplace_back([this, lane] { work(lane); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return working_ == 0; });
}

Lanes::~Lanes() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Lanes::work(std::size_t lane) {
  own_ops_[lane] = ops_[lane]->another();
  ops_[lane] = own_ops_[lane].get();
  std::size_t done = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (--working_ == 0) changed_.notify_all();
      changed_.wait(lock, [&] { return ends_ || round_ > done; });
      if (ends_) return;
      done = round_;
    }
    run_list(lane);
  }
}

void Lanes::run_list(std::size_t lane) {
  try {
    for (const Item* item : lists_[lane]) (*take_)(*item);
  } catch (...) {
    failures_[lane] = std::current_exception();
  }
  lists_[lane].clear();
}

void Lanes::run(const std::function<void(const Item&)>& take) {
  take_ = &take;
  {
    const std::scoped_lock lock(mutex_);
    ++round_;
    working_ = threads_.size();
  }
  changed_.notify_all();
  run_list(0);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return working_ == 0; });
  }
  std::exception_ptr first;
  for (std::exception_ptr& failure : failures_) {
    if (!first) first = failure;
    failure = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace lockstep::nn
