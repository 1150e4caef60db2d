// SPDX-License-Identifier: Apache-2.0
#include "apps/train/reporter.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/nearest.hpp"
#include "platform/watchdog/process.hpp"

namespace lockstep::train {

Reporter::Reporter(std::ostream& out, const observe::ProgressOptions& options)
    : display_(out, options), ticker_([this] { tick(); }) {}

Reporter::~Reporter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    display_.print("");
  }
  ends_.notify_all();
  ticker_.join();
}

void Reporter::tick() {
  const Onlooker onlooker;
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, std::chrono::milliseconds(250), [this] { return ending_; })) display_.tick();
}

void Reporter::phase(const std::string& what) {
  const std::lock_guard lock(mutex_);
  display_.phase(what);
}

void Reporter::print(const std::string& text) {
  const std::lock_guard lock(mutex_);
  display_.print(text);
}

void Reporter::start(const observe::StartEvent& event, const observe::RunLength& run) {
  write(event);
  const std::lock_guard lock(mutex_);
  display_.start(run);
}

void Reporter::recovered(const observe::RecoveryEvent& event, const observe::RunLength& run) {
  std::vector<int> dead;
  for (const observe::DeadRank& rank : event.ranks) dead.push_back(rank.rank);
  const auto host_of = [&](int number) {
    return std::find_if(event.ranks.begin(), event.ranks.end(), [&](const auto& rank) { return rank.rank == number; })
        ->host;
  };
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f s", event.seconds);
  const std::string left = std::to_string(event.left) + (event.left == 1 ? " rank goes on" : " ranks go on");
  print(rank_names(dead, host_of) + (event.ranks.size() == 1 ? " has" : " have") + " died: " + left + " after step " +
        std::to_string(event.step) + ", " + seconds.data() + " later\n");
  write(event);
  const std::lock_guard lock(mutex_);
  display_.start(run);
}

void Reporter::progress(const observe::ProgressEvent& event) {
  const std::lock_guard lock(mutex_);
  display_.step(event);
}

void Reporter::evaluation(const observe::EvaluationEvent& event) {
  const std::lock_guard lock(mutex_);
  display_.evaluation(event);
}

void Reporter::stragglers(const observe::StragglerEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    display_.stragglers(event);
  }
  write(event);
}

void Reporter::balance(const observe::BalanceEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    display_.balance(event);
  }
  write(event);
}

void Reporter::epoch(const observe::EpochEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    display_.epoch(event);
  }
  write(event);
}

void Reporter::checkpoint(const observe::CheckpointEvent& event) {
  write(event);
  const std::string what = "checkpoint of step " + std::to_string(event.step);
  const bool is_complete = !event.path.empty();
  last_failure_ = is_complete ? "" : event.error;
  if (is_complete) last_checkpoint_ = event.path;
  if (!notice_) return;
  if (is_complete && tried_elsewhere_) notice_("the " + what + " is in " + event.path + " (--save-fallback)");
  tried_elsewhere_ = event.tries_elsewhere;
  if (event.error.empty()) return;
  if (is_complete) return notice_("the " + what + " is complete, but: " + event.error + "; training goes on");
  notice_("no " + what + (event.tries_elsewhere ? " in --save-dir: " : ": ") + event.error +
          (event.tries_elsewhere ? "; --save-fallback is tried" : "; training goes on"));
}

}  // namespace lockstep::train
