#include "lockstep/comm/progress.hpp"

#include <algorithm>
#include <thread>

namespace lockstep {

void Progress::add(ProgressSource& source) { sources_.push_back(&source); }

void Progress::remove(ProgressSource& source) { std::erase(sources_, &source); }

bool Progress::poll() {
  bool moved = false;
  for (ProgressSource* source : sources_) moved |= source->progress();
  return moved;
}

void Progress::wait(const std::function<bool()>& done) {
  int fruitless = 0;
  while (!done()) {
    fruitless = poll() ? 0 : fruitless + 1;
    if (fruitless > policy_.spins_before_yield) std::this_thread::yield();
  }
}

}  // namespace lockstep
