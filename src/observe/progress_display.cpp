// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/progress_display.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

namespace lockstep::observe {

namespace {

constexpr double terminal_interval_seconds = 0.1;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  const int length = std::snprintf(nullptr, 0, pattern, values...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, values...);
  text.pop_back();
  return text;
}

/// "4:05", "1:04:05", or "?" where it cannot be known.
std::string time_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = std::llround(seconds);
  if (total >= 3600) return format("%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
  return format("%lld:%02lld", total / 60, total % 60);
}

double seconds_left(const ProgressOptions& options, const StepEvent& event) {
  const double epochs_done = static_cast<double>(event.epoch - 1) +
                             static_cast<double>(event.step) / static_cast<double>(options.steps_per_epoch);
  const double images_left =
      (static_cast<double>(options.epochs) - epochs_done) * static_cast<double>(options.images_per_epoch.value);
  return images_left / event.images_per_second;
}

std::string line_text(const ProgressOptions& options, const StepEvent& event) {
  return format("epoch %lld/%lld  step %lld/%lld  loss %.4f  %.0f images/s  %s left",
                static_cast<long long>(event.epoch), static_cast<long long>(options.epochs),
                static_cast<long long>(event.step), static_cast<long long>(options.steps_per_epoch), event.loss,
                event.images_per_second, time_text(seconds_left(options, event)).c_str());
}

}  // namespace

void ProgressDisplay::step(const StepEvent& event, Clock::time_point now) {
  const double interval = options_.terminal ? terminal_interval_seconds : options_.interval_seconds;
  if (shown_ && std::chrono::duration<double>(now - *shown_).count() < interval) return;
  shown_ = now;
  if (options_.terminal) {
    clear_line();
    out_ << line_text(options_, event) << std::flush;
    line_open_ = true;
  } else {
    out_ << line_text(options_, event) << std::endl;
  }
}

void ProgressDisplay::epoch(const EpochEvent& event) {
  clear_line();
  if (!heading_done_) out_ << "epoch  train loss  val loss  val accuracy  images/s  seconds\n";
  heading_done_ = true;
  out_ << format("%5lld  %10.4f  %8.4f  %10.2f %%  %8.0f  %7.1f", static_cast<long long>(event.epoch), event.train_loss,
                 event.val_loss, 100 * event.val_accuracy, event.images_per_second, event.seconds)
       << std::endl;
}

void ProgressDisplay::clear_line() {
  constexpr const char* erase = "\r\x1b[K";  // to the line's start, then erase to its end
  if (line_open_) out_ << erase;
  line_open_ = false;
}

}  // namespace lockstep::observe
