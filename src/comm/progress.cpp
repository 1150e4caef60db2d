// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/progress.hpp"

#include <algorithm>
#include <array>

#include "comm/operation.hpp"
#include "comm/progress_thread.hpp"
#include "lockstep/base/error.hpp"
#include "platform/node_memory/flight_recorder.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> names = {"auto", "spin", "yield", "sleep"};

// A sleeping rank wakes up at intervals to check for ended peers and the deadline and, if it waits on several
// communicators, to poll those that cannot wake it.
constexpr std::chrono::milliseconds sleep_for_one_source{20};
constexpr std::chrono::milliseconds sleep_for_several{1};

constexpr std::chrono::milliseconds between_ticks{1};

}  // namespace

std::span<const std::string_view> wait_names() { return names; }

WaitPolicy make_wait_policy(std::string_view name, int spins_advised) {
  constexpr int always = WaitPolicy::always;
  if (name == "spin") return {.spins_before_yield = always, .yields_before_sleep = always, .adaptive = false};
  if (name == "yield") return {.spins_before_yield = 0, .yields_before_sleep = always, .adaptive = false};
  if (name == "sleep") return {.spins_before_yield = 0, .yields_before_sleep = 0, .adaptive = false};
  return {.spins_before_yield = spins_advised};
}

void Progress::defer(std::function<bool()> done) {
  const Exclusive exclusive(*this);
  deferred_.push_back(std::move(done));
}

void Progress::say(std::string_view text) const noexcept {
  if (!notice_) return;
  try {
    notice_(text);
  } catch (...) {  // the caller is a destructor, which cannot handle it
  }
}

void Progress::note_task(std::string_view task, std::int64_t step) const {
  if (recorder_ == nullptr) return;
  recorder_->set_task(task);
  recorder_->set_step(step);
}

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
  // The clock is read after a round that moved nothing, when the time costs nothing, and at intervals if every round
  // moves something.
  constexpr unsigned polls_between_ticks = 256;
  if (moved && ++polls_ % polls_between_ticks != 0) return true;
  return on_tick() || moved;
}

bool Progress::on_tick() {
  const Clock::time_point time = now();
  if (time - last_tick_ < between_ticks) return false;
  last_tick_ = time;
  if (recorder_ != nullptr) recorder_->note_poll();
  bool moved = false;
  for (ProgressSource* source : sources_) moved |= source->on_tick(time);
  std::erase_if(deferred_, [](const auto& done) { return done(); });
  return moved;
}

bool Progress::wait_until(const std::function<bool()>& done, Clock::time_point until) {
  if (done()) return true;
  const Exclusive exclusive(*this);
  const int spins = spins_;
  std::optional<Clock::duration> longest_yield;
  int fruitless = 0;  // polls in a row that moved nothing, up to `spins`
  int yields = 0;
  do {
    const bool moved = poll();
    if (until != Clock::time_point::max() && now() >= until) return done();
    if (moved) {
      fruitless = yields = 0;
    } else if (fruitless < spins) {
      ++fruitless;
    } else {
      longest_yield = longest_yield.value_or(Clock::duration(0));
      if (yields >= policy_.yields_before_sleep && sleep(until)) continue;
      if (yields < WaitPolicy::always) ++yields;
      longest_yield = std::max(*longest_yield, yield());
    }
  } while (!done());
  adapt(longest_yield);
  return true;
}

void Progress::wait(Operation& operation) {
  const auto has_ended = [&] { return operation.state() != Operation::State::pending; };
  const Exclusive exclusive(*this);
  if (has_ended()) return;  // a progress thread may have ended it meanwhile
  constexpr int longest_moment = 500;
  for (int spins = std::min(spins_, longest_moment); spins > 0; --spins) {
    operation.poll();
    if (has_ended()) return adapt(std::nullopt);
  }
  wait(has_ended);
}

/// @return for how long the core was away, where that matters
Clock::duration Progress::yield() {
  const bool matters = policy_.adaptive && policy_.spins_before_yield > 0;
  const Clock::time_point begin = matters ? now() : Clock::time_point();
  time_ != nullptr ? time_->yield() : std::this_thread::yield();
  return matters ? now() - begin : Clock::duration(0);
}

/// Sleeps on one of the sources that have pending operations. @return whether it slept
bool Progress::sleep(Clock::time_point until) {
  const auto busy = [](const ProgressSource* source) { return !source->idle(); };
  const auto first = std::find_if(sources_.begin(), sources_.end(), busy);
  if (first == sources_.end()) return false;
  const bool alone = std::find_if(first + 1, sources_.end(), busy) == sources_.end();
  std::chrono::nanoseconds at_most = alone ? sleep_for_one_source : sleep_for_several;
  if (until != Clock::time_point::max()) at_most = std::clamp<std::chrono::nanoseconds>(until - now(), {}, at_most);
  return time_ == nullptr ? (*first)->sleep(at_most) : time_->sleep(**first, at_most);
}

/// Spins less where spinning was in vain, and more again where it was not. Where another thread has used the core for a
/// moment, this one hardly spins, because the others give the core back as soon as they wait. Where another thread has
/// kept the core, a yield costs so much that this one spins for longer before the next, for some time.
/// @param longest_yield  of the wait that has ended; none if spinning was enough
void Progress::adapt(std::optional<Clock::duration> longest_yield) {
  if (!policy_.adaptive) return;
  constexpr std::chrono::microseconds alone_on_its_core{1};
  constexpr std::chrono::microseconds kept_by_another{200};
  constexpr std::int64_t many_times = 8;
  const std::int64_t usual = policy_.spins_before_yield;  // may be the largest int
  std::int64_t spins = spins_;
  if (!longest_yield) {
    spins = spins > usual ? spins - spins / 16 : std::min(usual, 2 * spins + 1);
  } else if (*longest_yield > kept_by_another) {
    spins = many_times * usual;
  } else {
    spins /= *longest_yield > alone_on_its_core ? 16 : 2;
  }
  spins_ = static_cast<int>(std::min<std::int64_t>(spins, WaitPolicy::always));
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

bool Progress::is_busy_besides(const ProgressSource& source) const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [&](const ProgressSource* other) { return other != &source && !other->idle(); });
}

ProgressThread::ProgressThread(Progress& progress, const ProgressThreadOptions& options)
    : progress_(&progress), options_(options) {
  if (progress.shared_) throw Error(ErrorCode::invalid_argument, "the Progress has a progress thread already");
  thread_ = std::thread([this] { run(); });
  progress.shared_ = true;
}

ProgressThread::~ProgressThread() {
  {
    const Progress::Exclusive exclusive(*progress_);
    stop_ = true;
  }
  progress_->wake_.notify_one();
  thread_.join();
  progress_->shared_ = false;
}

void ProgressThread::run() {
  std::unique_lock lock(progress_->mutex_);
  int fruitless = 0;
  while (!stop_) {
    if (progress_->wanted_.load(std::memory_order_relaxed) || progress_->idle()) {
      progress_->wake_.wait(lock);
      fruitless = 0;
    } else if (progress_->poll_sources()) {
      fruitless = 0;
    } else if (++fruitless > options_.spins_before_nap) {
      progress_->wake_.wait_for(lock, options_.nap);
    }
  }
}

}  // namespace lockstep
