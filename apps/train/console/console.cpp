// SPDX-License-Identifier: Apache-2.0
#include "apps/train/console/console.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "apps/cli/terminal.hpp"
#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "mpi/print.hpp"
#include "platform/watchdog/process.hpp"

namespace lockstep::train {

Screen::Screen(std::ostream& out, const observe::ProgressOptions& options)
    : display_(out, options), ticker_([this] {
        const Onlooker onlooker;
        std::unique_lock lock(mutex_);
        while (!ends_.wait_for(lock, std::chrono::milliseconds(250), [this] { return ending_; })) display_.tick();
      }) {}

Screen::~Screen() {
  use([this](observe::ProgressDisplay& display) {
    ending_ = true;
    display.print("");
  });
  ends_.notify_all();
  ticker_.join();
}

Console::Console(const World& world, std::string program) : program_(std::move(program)) {
  begin(world);
  keeps_log_ = !screen_ && std::getenv("LOCKSTEP_OWN_LOG") != nullptr;
}

void Console::begin(const World& world) {
  if (world.rank() != Rank{0} || screen_) return;
  screen_.emplace(std::cout, observe::ProgressOptions{.terminal = cli::shows_on_terminal(),
                                                      .columns = cli::terminal_columns().value_or(80)});
}

void Console::notice(std::string_view text) const { print_error(program_, text); }

void Console::start(const observe::StartEvent& event, const observe::RunLength& run) {
  write(event);
  show([&](observe::ProgressDisplay& display) { display.start(run); });
}

void Console::recovered(const observe::RecoveryEvent& event, const observe::RunLength& run) {
  write(event);  // before it is said, so that an event is missing only where nobody has said it
  std::vector<int> dead;
  for (const observe::DeadRank& rank : event.ranks) dead.push_back(rank.rank);
  const auto host_of = [&](int number) {
    return std::ranges::find_if(event.ranks, [&](const auto& rank) { return rank.rank == number; })->host;
  };
  const std::string left = std::to_string(event.left) + (event.left == 1 ? " rank goes on" : " ranks go on");
  print(rank_names(dead, host_of) + (event.ranks.size() == 1 ? " has" : " have") + " died: " + left + " after step " +
        std::to_string(event.step) + format_text(", %.2f s later\n", event.seconds));
  show([&](observe::ProgressDisplay& display) { display.start(run); });
}

void Console::progress(const observe::ProgressEvent& event) {
  if (screen_) return screen_->use([&](observe::ProgressDisplay& display) { display.step(event); });
  const Clock::time_point now = Clock::now();
  if (logged_ && now - *logged_ < std::chrono::seconds(10)) return;
  logged_ = now;
  std::cout << "epoch " << event.epoch << "  step " << event.step << std::endl;
}

void Console::checkpoint(const observe::CheckpointEvent& event) {
  write(event);
  const std::string what = "checkpoint of step " + std::to_string(event.step);
  const bool is_complete = !event.path.empty();
  last_failure_ = is_complete ? "" : event.error;
  if (is_complete) last_checkpoint_ = event.path;
  if (is_complete && tried_elsewhere_) notice("the " + what + " is in " + event.path + " (--save-fallback)");
  tried_elsewhere_ = event.tries_elsewhere;
  if (event.error.empty()) return;
  if (is_complete) return notice("the " + what + " is complete, but: " + event.error + "; training goes on");
  notice("no " + what + (event.tries_elsewhere ? " in --save-dir: " : ": ") + event.error +
         (event.tries_elsewhere ? "; --save-fallback is tried" : "; training goes on"));
}

}  // namespace lockstep::train
