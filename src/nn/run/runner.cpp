// SPDX-License-Identifier: Apache-2.0
#include "nn/run/runner.hpp"

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

/// Waits for the device, which may wait for other ranks.
void Runner::settle() {
  while (!ops_.device().is_idle(queue_)) reducer_.progress();  // wait for timing only
}

template <typename Body>
void Runner::timed(const std::string& label, int lane, const Body& body) {
  if (observer_ == nullptr) return body();
  settle();
  const Clock::time_point begin = Clock::now();
  body();
  settle();
  const std::string track = lane <= 0 ? "compute" : "compute " + std::to_string(lane + 1);
  observer_->span({track, label, begin, Clock::now(), {}});
}

void Runner::submit(const Item& item) {
  const auto lane_of = [](const auto& kind) {
    if constexpr (requires { kind.lane; }) {
      return kind.lane;
    } else {
      return no_lane;
    }
  };
  const int lane = std::visit(lane_of, item);
  if (lane == no_lane || lanes_.count() == 1) return run_now(item);
  lanes_.add(lane, item);
}

void Runner::run_now(const Item& item) {
  std::visit([this](const auto& kind) { this->run(kind); }, item);
}

void Runner::run(const Join& /*item*/) {
  lanes_.run([this](const Item& item) { run_now(item); });
}

void Runner::run(const RunKernel& item) {
  timed(*item.label, item.lane, [&] { item.kernel->run(item.pass, *item.call); });
}

void Runner::run(const Update& item) {
  static const std::string label(update_label);
  timed(label, no_lane, [&] { ops_.update(item.steps); });
}

}  // namespace lockstep::nn
