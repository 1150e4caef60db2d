// SPDX-License-Identifier: Apache-2.0
#include "observe/progress_display.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"

namespace lockstep::observe {

namespace {

constexpr double terminal_step_seconds = 0.1;
constexpr double terminal_tick_seconds = 1;
constexpr double rate_window_seconds = 2;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Formats a time as "4:05" or "1:04:05"; "?" if it is unknown.
std::string time_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = std::llround(seconds);
  if (total >= 3600) return format_text("%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
  return format_text("%lld:%02lld", total / 60, total % 60);
}

std::int64_t epochs_of(const RunLength& run) { return (run.steps + run.steps_per_epoch - 1) / run.steps_per_epoch; }

/// Returns the number of steps that the run takes in an epoch. The last epoch may be cut short.
std::int64_t steps_of(const RunLength& run, std::int64_t epoch) {
  return std::min(run.steps_per_epoch, run.steps - (epoch - 1) * run.steps_per_epoch);
}

std::int64_t step_of_epoch(const RunLength& run, std::int64_t epoch, std::int64_t step_of_run) {
  return step_of_run - (epoch - 1) * run.steps_per_epoch;
}

/// Returns the number of images in the first `steps` steps of a run.
std::int64_t images_of(const RunLength& run, std::int64_t steps) {
  const std::int64_t in_the_last_epoch = steps % run.steps_per_epoch * run.batch.value;
  return steps / run.steps_per_epoch * run.images_per_epoch.value +
         std::min(in_the_last_epoch, run.images_per_epoch.value);
}

/// Returns the number of evaluations from the end of this epoch on.
std::int64_t evaluations_left(const RunLength& run, std::int64_t epoch) {
  if (run.eval_interval == 0) return 0;
  const std::int64_t last = epochs_of(run);
  return last / run.eval_interval - (epoch - 1) / run.eval_interval + (last % run.eval_interval == 0 ? 0 : 1);
}

/// Returns "rank 1 on host2: data 151.0 ms a step, usually 0.1 ms".
std::string text_of(const SlowRank& slow) {
  return format_text("rank %d on %s: %s %.1f ms a step, usually %.1f ms", slow.rank, slow.host.c_str(),
                     slow.cause.c_str(), 1000 * slow.seconds, 1000 * slow.usual_seconds);
}

/// Returns "1 on host2: data +150.9 ms".
std::string cell_of(const SlowRank& slow) {
  return format_text("%d on %s: %s %+.1f ms", slow.rank, slow.host.c_str(), slow.cause.c_str(),
                     1000 * (slow.seconds - slow.usual_seconds));
}

/// Returns lines about the ranks from the first one on that are stragglers.
std::string lines_of(std::span<const SlowRank> ranks) {
  constexpr std::size_t most = 8;
  std::string lines;
  std::size_t listed = 0;
  for (const SlowRank& slow : ranks) {
    if (!slow.is_straggler) continue;
    if (listed++ < most) lines += "  " + text_of(slow) + '\n';
  }
  if (listed > most) lines += "  and " + std::to_string(listed - most) + " more\n";
  return lines;
}

/// Returns "shards of ranks 0 … 3: 5 5 4 2".
std::string text_of_shards(std::span<const int> shards) {
  constexpr std::size_t most = 64;
  std::string text = "shards of ranks 0 … " + std::to_string(shards.size() - 1) + ":";
  for (const int own : shards.first(std::min(most, shards.size()))) text += ' ' + std::to_string(own);
  return text + (shards.size() > most ? " …" : "");
}

/// Returns "val top5 accuracy".
std::string column_of(const MetricValue& metric) {
  std::string column = "val " + metric.name;
  std::replace(column.begin(), column.end(), '_', ' ');
  return column;
}

}  // namespace

void ProgressDisplay::phase(const std::string& what, Clock::time_point now) {
  under_way_ = what;
  since_ = now;
}

void ProgressDisplay::start(const RunLength& run, Clock::time_point now) {
  run_ = run;
  from_ = next_ = {};
  phase("the first step", now);
}

void ProgressDisplay::step(const ProgressEvent& event, Clock::time_point now) {
  const std::int64_t steps = steps_of(run_, event.epoch);
  if (event.seconds - next_.seconds >= rate_window_seconds) {
    from_ = next_;
    next_ = event;
  }
  const bool due = first_ || is_due(now, terminal_step_seconds);
  first_ = false;
  const std::string place =
      place_text(event.epoch) + format_text("  step %lld/%lld  loss %.4f", static_cast<long long>(event.step),
                                            static_cast<long long>(steps), event.loss);
  phase(event.step < steps ? place + "  step " + std::to_string(event.step + 1) : place, now);
  if (!due) return;
  const std::string line =
      place + format_text("  %.0f images/s  %s left", images_per_second(event), time_text(seconds_left(event)).c_str());
  show(line + spent_text(event, options_.columns - std::min(options_.columns, line.size() + 1)), now);
}

void ProgressDisplay::evaluation(const EvaluationEvent& event, Clock::time_point now) {
  const std::string line =
      place_text(event.epoch) + format_text("  evaluation, batch %lld/%lld", static_cast<long long>(event.batch),
                                            static_cast<long long>(event.batches));
  phase(line, now);
  if (is_due(now, terminal_step_seconds)) show(line, now);
}

void ProgressDisplay::epoch(const EpochEvent& event, Clock::time_point now) {
  if (event.evaluation_seconds > 0) evaluation_seconds_ = event.evaluation_seconds;
  std::string heading = "epoch  train loss";
  std::string row = format_text("%5lld  %10.4f", static_cast<long long>(event.epoch), event.train_loss);
  for (const MetricValue& metric : event.metrics) {
    if (!metric.in_table) continue;
    const std::string column = column_of(metric);
    const int width = static_cast<int>(std::max<std::size_t>(8, column.size()));
    heading += format_text("  %*s", width, column.c_str());
    row += format_text("  %*s", width, metric.text().c_str());
  }
  heading += "  images/s  seconds";
  row += format_text("  %8.0f  %7.1f", event.images_per_second, event.seconds);
  std::span<const SlowRank> below = event.slow_ranks;
  if (!below.empty()) {
    const std::string column = "  slowest rank, of a step";
    const std::string cell = "  " + cell_of(below.front());
    if (std::max(heading.size() + column.size(), row.size() + cell.size()) <= options_.columns) {
      heading += column;
      row += cell;
      below = below.subspan(1);
    }
  }
  heading += '\n';
  row += '\n' + lines_of(below);
  if (!event.shards.empty()) row += "  " + text_of_shards(event.shards) + '\n';
  print(heading_done_ ? row : heading + row);
  heading_done_ = true;
  phase(place_text(std::min(event.epoch + 1, epochs_of(run_))), now);
}

void ProgressDisplay::stragglers(const StragglerEvent& event) {
  if (event.ranks.empty()) return;
  const std::string when =
      place_text(event.epoch) + format_text("  step %lld, over %lld steps: ",
                                            static_cast<long long>(step_of_epoch(run_, event.epoch, event.step)),
                                            static_cast<long long>(event.steps));
  print(event.ranks.front().is_straggler
            ? when + "slow ranks\n" + lines_of(event.ranks)
            : when + "no rank is slow; the slowest is " + text_of(event.ranks.front()) + '\n');
}

void ProgressDisplay::balance(const BalanceEvent& event) {
  const std::int64_t step = step_of_epoch(run_, event.epoch, event.step);
  print(place_text(event.epoch) + format_text("  after step %lld: ", static_cast<long long>(step)) +
        text_of_shards(event.shards) + '\n');
}

void ProgressDisplay::tick(Clock::time_point now) {
  if (!is_due(now, terminal_tick_seconds)) return;
  const double seconds = seconds_between(since_, now);
  if (seconds < terminal_tick_seconds) return;  // the activity has just begun, or its next line comes soon
  show(under_way_ + format_text(": %.0f s so far", seconds), now);
}

void ProgressDisplay::print(const std::string& text) {
  constexpr const char* erase = "\x1b[K";  // erases to the end of the line, at whose beginning the cursor is
  if (line_open_) out_ << erase;
  line_open_ = false;
  out_ << echo_lines(text) << std::flush;
}

double ProgressDisplay::images_per_second(const ProgressEvent& event) const {
  const double seconds = event.seconds - from_.seconds;
  return seconds > 0 ? static_cast<double>(event.images - from_.images) / seconds : 0;
}

/// Returns "  data 12 %  compute 85 %  communication 3 %" of the interval in which the rate is measured. Where that is
/// longer than `columns`, it returns the larger one of the waits, or nothing. Nothing is returned if no wait was
/// measured, either.
std::string ProgressDisplay::spent_text(const ProgressEvent& event, std::size_t columns) const {
  const double seconds = event.seconds - from_.seconds;
  if (seconds <= 0 || event.data_wait_seconds + event.exposed_communication_seconds <= 0) return {};
  const auto percent = [&](double part) { return std::clamp(100 * part / seconds, 0.0, 100.0); };
  const double data = percent(event.data_wait_seconds - from_.data_wait_seconds);
  const double communication = percent(event.exposed_communication_seconds - from_.exposed_communication_seconds);
  const double compute = std::max(0.0, 100 - data - communication);
  std::string whole =
      format_text("  data %.0f %%  compute %.0f %%  communication %.0f %%", data, compute, communication);
  if (whole.size() <= columns) return whole;
  std::string largest = data > communication ? format_text("  data %.0f %%", data)
                                             : format_text("  communication %.0f %%", communication);
  return largest.size() <= columns ? largest : "";
}

/// Returns the time left for training and, once one evaluation has been timed, for the remaining evaluations.
double ProgressDisplay::seconds_left(const ProgressEvent& event) const {
  const std::int64_t done = (event.epoch - 1) * run_.steps_per_epoch + event.step;
  const auto images = static_cast<double>(images_of(run_, run_.steps) - images_of(run_, done));
  const double evaluations = evaluation_seconds_.value_or(0) * static_cast<double>(evaluations_left(run_, event.epoch));
  return images / images_per_second(event) + evaluations;
}

std::string ProgressDisplay::place_text(std::int64_t epoch) const {
  return format_text("epoch %lld/%lld", static_cast<long long>(epoch), static_cast<long long>(epochs_of(run_)));
}

/// Shows a line. On a terminal it leaves the cursor at the beginning of the line, so that other output, by any rank or
/// by the launcher, overwrites the line instead of continuing it.
void ProgressDisplay::show(const std::string& line, Clock::time_point now) {
  shown_ = now;
  if (options_.terminal) {
    out_ << echo_lines(line.substr(0, options_.columns - 1)) << "\x1b[K\r" << std::flush;
    line_open_ = true;
  } else {
    out_ << echo_lines(line) << std::endl;
  }
}

bool ProgressDisplay::is_due(Clock::time_point now, double terminal_interval_seconds) const {
  return seconds_between(shown_, now) >= (options_.terminal ? terminal_interval_seconds : options_.interval_seconds);
}

}  // namespace lockstep::observe
