// SPDX-License-Identifier: Apache-2.0
#include "schedules/scheduler.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/plan/seams.hpp"

namespace lockstep::schedules {
namespace {

Scheduler* running = nullptr;

constexpr int yields_until_idle = 3;
constexpr int idle_rounds_of_who_is_slow = 30;
constexpr int idle_rounds_until_stuck = 4000;

}  // namespace

Scheduler::Scheduler(std::uint64_t seed, const Pace& pace)
    : random_(seed), pace_(pace), strategy_(static_cast<Strategy>(random_() % 3)) {
  constexpr std::uint64_t quanta[] = {1, 2, 5, 20, 100};
  mean_quantum_ = quanta[random_() % std::size(quanta)];
}

Scheduler::~Scheduler() = default;

void Scheduler::add(std::function<void()> body) {
  ranks_.push_back(std::make_unique<Fiber>([this, body = std::move(body)] {
    try {
      body();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
    note_progress();
  }));
  idle_.push_back(0);
  is_stopped_.push_back(false);
  priorities_.push_back(random_());
}

void Scheduler::run() {
  slow_ = random_() % ranks_.size();
  running = this;
  backends::seams::on_preempt = [] { running->preempt(); };
  while (!error_ && patience_ < idle_rounds_until_stuck) {
    if (all_have_ended()) break;
    current_ = choose();
    trace_ = (trace_ ^ current_) * 0x9e3779b97f4a7c15U + 1;
    draw_quantum();
    ranks_[current_]->resume();
  }
  backends::seams::on_preempt = nullptr;
  running = nullptr;
  if (error_) std::rethrow_exception(error_);
  if (patience_ >= idle_rounds_until_stuck) throw Stuck("no operation ends any more");
}

bool Scheduler::all_have_ended() const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!has_ended(rank)) return false;
  return true;
}

void Scheduler::draw_quantum() { quantum_ = 1 + random_() % (2 * mean_quantum_); }

bool Scheduler::is_worth_a_turn(std::size_t rank) const { return !has_ended(rank) && idle_[rank] < yields_until_idle; }

/// Returns the ranks that have not recently been idle too often; all ranks if every rank has.
std::vector<std::size_t> Scheduler::worth_a_turn() {
  std::vector<std::size_t> able;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (is_worth_a_turn(rank)) able.push_back(rank);
  if (!able.empty()) return able;
  if (++patience_ > idle_rounds_of_who_is_slow) now_ += pace_.idle;
  std::fill(idle_.begin(), idle_.end(), 0);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!has_ended(rank)) able.push_back(rank);
  return able;
}

std::size_t Scheduler::choose() {
  std::vector<std::size_t> able = worth_a_turn();
  constexpr std::uint64_t rarely = 128;
  const bool now_and_then = random_() % rarely == 0;
  switch (strategy_) {
    case Strategy::even: break;
    case Strategy::one_is_slow:
      if (able.size() > 1 && !now_and_then) std::erase(able, slow_);
      break;
    case Strategy::by_priority:
      if (now_and_then) priorities_[able[random_() % able.size()]] = random_();
      return *std::max_element(able.begin(), able.end(),
                               [&](std::size_t a, std::size_t b) { return priorities_[a] < priorities_[b]; });
  }
  return able[random_() % able.size()];
}

void Scheduler::preempt() {
  if (quantum_-- > 1) return;
  ranks_[current_]->leave();
}

void Scheduler::stop() {
  is_stopped_[current_] = true;
  note_progress();
  ranks_[current_]->leave();
  std::abort();  // it is never resumed
}

void Scheduler::yield() {
  now_ += pace_.yield;
  ++idle_[current_];
  ranks_[current_]->leave();
}

bool Scheduler::sleep(ProgressSource& /*source*/, std::chrono::nanoseconds /*at_most*/) {
  yield();
  return true;
}

}  // namespace lockstep::schedules
