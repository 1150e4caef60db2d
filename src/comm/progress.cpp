#include "lockstep/comm/progress.hpp"

#include <algorithm>
#include <thread>

namespace lockstep {

void Progress::add(ProgressSource& source) {
  const Exclusive exclusive(*this);
  sources_.push_back(&source);
}

void Progress::remove(ProgressSource& source) {
  const Exclusive exclusive(*this);
  std::erase(sources_, &source);
}

bool Progress::poll() {
  if (shared_ && depth_ == 0) return false;
  return poll_sources();
}

bool Progress::poll_sources() {
  bool moved = false;
  for (ProgressSource* source : sources_) moved |= source->progress();
  return moved;
}

void Progress::wait(const std::function<bool()>& done) {
  if (done()) return;
  const Exclusive exclusive(*this);
  int fruitless = 0;
  while (!done()) {
    fruitless = poll() ? 0 : fruitless + 1;
    if (fruitless > policy_.spins_before_yield) std::this_thread::yield();
  }
}

void Progress::enter() {
  if (depth_++ > 0) return;
  wanted_.store(true, std::memory_order_relaxed);
  mutex_.lock();
}

void Progress::leave() {
  if (--depth_ > 0) return;
  wanted_.store(false, std::memory_order_relaxed);
  const bool something_to_do = !idle();
  mutex_.unlock();
  if (something_to_do) wake_.notify_one();
}

bool Progress::idle() const {
  return std::all_of(sources_.begin(), sources_.end(), [](const ProgressSource* source) { return source->idle(); });
}

}  // namespace lockstep
