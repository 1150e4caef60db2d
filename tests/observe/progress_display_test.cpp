// SPDX-License-Identifier: Apache-2.0
#include "observe/progress_display.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Clock::time_point start{seconds(1000)};

/// A run of two epochs of 100 steps with 100 images each.
constexpr RunLength two_epochs{.steps = 200, .steps_per_epoch = 100, .images_per_epoch = {10'000}, .batch = {100}};

/// A display and its output.
struct Shown {
  explicit Shown(bool terminal, const RunLength& run = two_epochs)
      : display(out, {.terminal = terminal, .columns = std::size_t{terminal ? 80U : 120U}, .interval_seconds = 5},
                start) {
    display.start(run, start);
  }
  std::ostringstream out;
  ProgressDisplay display;
};

/// Returns the event after `step` steps of an epoch, at a constant rate from the beginning.
ProgressEvent after(std::int64_t step, std::int64_t epoch = 1, double rate = 100) {
  const std::int64_t images = 100 * ((epoch - 1) * 100 + step);
  return {.epoch = epoch, .step = step, .loss = 1.25, .images = images, .seconds = static_cast<double>(images) / rate};
}

std::string plain_line(const ProgressEvent& event, const RunLength& run = two_epochs) {
  Shown shown(false, run);
  shown.display.step(event, start);
  return shown.out.str();
}

TEST(ProgressDisplay, SaysWhereTrainingIsAndHowLongItTakesStill) {
  // Half of the first of two epochs of 10,000 images is done, so 15,000 are left, at 100 per second.
  EXPECT_EQ(plain_line(after(50)), "epoch 1/2  step 50/100  loss 1.2500  100 images/s  2:30 left\n");
  EXPECT_EQ(plain_line(after(100, 2)), "epoch 2/2  step 100/100  loss 1.2500  100 images/s  0:00 left\n");
  EXPECT_EQ(plain_line(after(50, 1, 2)), "epoch 1/2  step 50/100  loss 1.2500  2 images/s  2:05:00 left\n");
  EXPECT_EQ(plain_line({.epoch = 1, .step = 50}), "epoch 1/2  step 50/100  loss 0.0000  0 images/s  ? left\n");
}

TEST(ProgressDisplay, SaysOnWhatTheTimeIsSpent) {
  ProgressEvent event = after(50);
  event.data_wait_seconds = 0.12 * event.seconds;
  event.exposed_communication_seconds = 0.03 * event.seconds;
  const std::string line = "epoch 1/2  step 50/100  loss 1.2500  100 images/s  2:30 left";
  EXPECT_EQ(plain_line(event), line + "  data 12 %  compute 85 %  communication 3 %\n");
  const auto on_terminal = [&](std::size_t columns) {
    std::ostringstream out;
    ProgressDisplay display(out, {.terminal = true, .columns = columns}, start);
    display.start(two_epochs, start);
    display.step(event, start + seconds(1));
    return out.str();
  };
  EXPECT_EQ(on_terminal(120), line + "  data 12 %  compute 85 %  communication 3 %\x1b[K\r");
  EXPECT_EQ(on_terminal(80), line + "  data 12 %\x1b[K\r") << "what it waits for most";
  EXPECT_EQ(on_terminal(70), line + "\x1b[K\r");
  std::swap(event.data_wait_seconds, event.exposed_communication_seconds);
  EXPECT_EQ(on_terminal(85), line + "  communication 12 %\x1b[K\r");
}

/// Waits of the first steps, in which memory is touched, do not count for ever.
TEST(ProgressDisplay, TheTimeIsThatOfTheLastSeconds) {
  Shown shown(false);
  ProgressEvent event{.epoch = 1, .step = 1, .images = 100, .seconds = 100, .data_wait_seconds = 90};
  shown.display.step(event, start);
  for (event.step = 2; event.step <= 11; ++event.step) {
    event.seconds += 1;
    event.exposed_communication_seconds += 0.25;
    shown.display.step(event, start + seconds(event.step));
  }
  EXPECT_NE(shown.out.str().find("  data 90 %  compute 10 %  communication 0 %\n"), std::string::npos);
  EXPECT_TRUE(shown.out.str().ends_with("  data 0 %  compute 75 %  communication 25 %\n")) << shown.out.str();
}

/// `--steps` ends the run within the second epoch.
TEST(ProgressDisplay, TimeLeftEndsWithTheStepsOfTheRun) {
  RunLength run = two_epochs;
  run.steps = 60;
  EXPECT_EQ(plain_line(after(50), run), "epoch 1/1  step 50/60  loss 1.2500  100 images/s  0:10 left\n");
  run.steps = 120;
  EXPECT_EQ(plain_line(after(50), run), "epoch 1/2  step 50/100  loss 1.2500  100 images/s  1:10 left\n");
  EXPECT_EQ(plain_line(after(10, 2), run), "epoch 2/2  step 10/20  loss 1.2500  100 images/s  0:10 left\n");
}

TEST(ProgressDisplay, TheLastStepOfAnEpochMayBeSmall) {
  RunLength run = two_epochs;
  run.images_per_epoch = {9'910};  // the hundredth step has 10 images
  EXPECT_NE(plain_line(after(50), run).find("  2:28 left"), std::string::npos) << plain_line(after(50), run);
}

TEST(ProgressDisplay, TimeLeftCountsEvaluationsOnceOneHasShownHowLongTheyTake) {
  Shown shown(false);
  shown.display.step(after(100), start);
  shown.display.epoch({.epoch = 1, .evaluation_seconds = 30}, start);
  shown.display.step(after(50, 2), start + seconds(5));
  EXPECT_NE(shown.out.str().find("step 50/100  loss 1.2500  100 images/s  1:20 left\n"), std::string::npos)
      << shown.out.str();
}

/// The first steps are slow, because memory is touched and kernels are made.
TEST(ProgressDisplay, TheRateIsThatOfTheLastSeconds) {
  Shown shown(false);
  ProgressEvent event{.epoch = 1, .step = 1, .images = 100, .seconds = 100};
  shown.display.step(event, start);
  for (event.step = 2; event.step <= 11; ++event.step) {
    event.images += 100;
    event.seconds += 1;
    shown.display.step(event, start + seconds(event.step));
  }
  EXPECT_NE(shown.out.str().find("  1 images/s"), std::string::npos) << shown.out.str();
  EXPECT_NE(shown.out.str().rfind("  100 images/s"), std::string::npos) << shown.out.str();
}

TEST(ProgressDisplay, PlainLinesKeepTheirInterval) {
  Shown shown(false);
  for (int i = 1; i < 100; ++i) {
    shown.display.step(after(i), start + milliseconds(100 * i));
    shown.display.tick(start + milliseconds(100 * i + 50));
  }
  const std::string text = shown.out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);  // the first step, and a line 5 s later
  EXPECT_NE(text.find("step 51/100"), std::string::npos) << text;
  EXPECT_EQ(text.find("so far"), std::string::npos) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

/// The steps take 12 seconds, after a start of 7.
TEST(ProgressDisplay, ALineIsShownEveryFiveSecondsHoweverLongAStepTakes) {
  std::ostringstream out;
  ProgressDisplay display(out, {.interval_seconds = 5}, start);
  display.phase("loading mnist", start);
  std::vector<int> lines;
  for (int second = 1; second <= 60; ++second) {
    const std::string before = out.str();
    const auto now = start + seconds(second);
    if (second == 7) display.start(two_epochs, now);
    if (second > 7 && (second - 7) % 12 == 0) display.step(after((second - 7) / 12), now);
    display.tick(now);
    if (out.str() != before) lines.push_back(second);
  }
  ASSERT_FALSE(lines.empty());
  EXPECT_LE(lines.front(), 5);
  for (std::size_t i = 1; i < lines.size(); ++i) EXPECT_LE(lines[i] - lines[i - 1], 5) << out.str();
  for (const char* line : {"loading mnist: 5 s so far\n", "the first step: 3 s so far\n",
                           "epoch 1/2  step 1/100  loss 1.2500  step 2: 5 s so far\n"}) {
    EXPECT_NE(out.str().find(line), std::string::npos) << line << out.str();
  }
}

TEST(ProgressDisplay, AnEvaluationShowsHowFarItIs) {
  Shown shown(false);
  shown.display.step(after(100), start);
  for (int batch = 1; batch <= 20; ++batch) {
    shown.display.evaluation({.epoch = 1, .batch = batch, .batches = 79}, start + seconds(batch));
  }
  const std::string text = shown.out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << text;
  EXPECT_NE(text.find("\nepoch 1/2  evaluation, batch 5/79\nepoch 1/2  evaluation, batch 10/79\n"), std::string::npos)
      << text;
}

/// Other output, from another rank or from mpirun, begins at the start of a line.
TEST(ProgressDisplay, ATerminalsLineIsRewrittenAndLeavesTheCursorAtItsBeginning) {
  Shown shown(true);
  shown.display.step(after(1), start);
  shown.display.step(after(2), start + milliseconds(50));  // too soon for an update
  shown.display.step(after(3), start + milliseconds(150));
  EXPECT_EQ(shown.out.str(),
            "epoch 1/2  step 1/100  loss 1.2500  100 images/s  3:19 left\x1b[K\r"
            "epoch 1/2  step 3/100  loss 1.2500  100 images/s  3:17 left\x1b[K\r");
}

TEST(ProgressDisplay, ATerminalsLineIsNoLongerThanTheTerminal) {
  std::ostringstream out;
  ProgressDisplay display(out, {.terminal = true, .columns = 20}, start);
  display.start(two_epochs, start);
  display.step(after(1), start);
  EXPECT_EQ(out.str(), "epoch 1/2  step 1/1\x1b[K\r");
}

TEST(ProgressDisplay, OtherTextTakesThePlaceOfTheLine) {
  Shown shown(true);
  shown.display.step(after(1), start);
  shown.display.print("trace: t.json\n");
  shown.display.print("");
  EXPECT_NE(shown.out.str().find("left\x1b[K\r\x1b[Ktrace: t.json\n"), std::string::npos) << shown.out.str();
  EXPECT_TRUE(shown.out.str().ends_with("trace: t.json\n"));
}

std::vector<MetricValue> metrics(std::optional<double> loss, std::optional<double> accuracy) {
  return {{.name = "loss", .value = loss},
          {.name = "top5_accuracy", .value = accuracy, .higher_is_better = true, .is_fraction = true}};
}

TEST(MetricValue, ThatIsANumberBeatsNoneAndNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto better = [](bool higher, std::optional<double> value, std::optional<double> other) {
    return MetricValue{.name = "m", .value = value, .higher_is_better = higher}.is_better_than(other);
  };
  for (const bool higher : {false, true}) {
    EXPECT_EQ(better(higher, 2, 1), higher);
    EXPECT_EQ(better(higher, 1, 2), !higher);
    EXPECT_FALSE(better(higher, 1, 1));
    EXPECT_TRUE(better(higher, 1, std::nullopt));
    EXPECT_FALSE(better(higher, std::nullopt, 1));
    EXPECT_TRUE(better(higher, 1, nan));
    EXPECT_FALSE(better(higher, nan, 1));
    EXPECT_FALSE(better(higher, nan, nan));
    EXPECT_FALSE(better(higher, nan, std::nullopt)) << "it would be the best one";
  }
}

TEST(ProgressDisplay, TheTableLeavesOutMetricsThatHaveNoColumn) {
  Shown shown(false);
  shown.display.epoch({.epoch = 1, .metrics = {{.name = "macro_f1", .value = 0.5, .in_table = false}}}, start);
  EXPECT_EQ(shown.out.str().find("macro"), std::string::npos) << shown.out.str();
}

TEST(ProgressDisplay, EpochsMakeATable) {
  Shown shown(false);
  shown.display.epoch({.epoch = 1,
                       .train_loss = 0.52352,
                       .metrics = metrics(0.25, 0.9871),
                       .seconds = 12.34,
                       .images_per_second = 4800.4},
                      start);
  shown.display.epoch({.epoch = 2, .metrics = metrics(0, 1)}, start);
  shown.display.epoch({.epoch = 3, .train_loss = 0.5, .metrics = metrics({}, {})}, start);  // it was not evaluated
  EXPECT_EQ(shown.out.str(),
            "epoch  train loss  val loss  val top5 accuracy  images/s  seconds\n"
            "    1      0.5235    0.2500            98.71 %      4800     12.3\n"
            "    2      0.0000    0.0000           100.00 %         0      0.0\n"
            "    3      0.5000         -                  -         0      0.0\n");
}

const SlowRank slow_in_compute{
    .rank = 1, .host = "node1", .cause = "compute", .seconds = 0.21, .usual_seconds = 0.01, .is_straggler = true};
const SlowRank slow_in_data{.rank = 2, .host = "node2", .cause = "data", .seconds = 0.15, .is_straggler = true};

TEST(ProgressDisplay, TheTableNamesTheSlowestRankAndOtherStragglersBelow) {
  Shown shown(false);
  shown.display.epoch({.epoch = 1, .slow_ranks = {slow_in_compute, slow_in_data}}, start);
  EXPECT_EQ(shown.out.str(),
            "epoch  train loss  images/s  seconds  slowest rank, of a step\n"
            "    1      0.0000         0      0.0  1 on node1: compute +200.0 ms\n"
            "  rank 2 on node2: data 150.0 ms a step, usually 0.0 ms\n");
}

TEST(ProgressDisplay, SlowRanksWithinAnEpochAreListedOnlyIfTheyAreStragglers) {
  Shown shown(false);
  shown.display.stragglers({.epoch = 1, .step = 30, .steps = 20, .ranks = {slow_in_compute, slow_in_data}});
  SlowRank slowest = slow_in_compute;
  slowest.is_straggler = false;
  shown.display.stragglers({.epoch = 2, .step = 105, .steps = 4, .ranks = {slowest}});
  EXPECT_EQ(
      shown.out.str(),
      "epoch 1/2  step 30, over 20 steps: slow ranks\n"
      "  rank 1 on node1: compute 210.0 ms a step, usually 10.0 ms\n"
      "  rank 2 on node2: data 150.0 ms a step, usually 0.0 ms\n"
      "epoch 2/2  step 5, over 4 steps: no rank is slow; the slowest is rank 1 on node1: compute 210.0 ms a step, "
      "usually 10.0 ms\n");
}

TEST(ProgressDisplay, ShardsThatMoveAreALineEach) {
  Shown shown(false);
  shown.display.balance({.epoch = 1, .step = 10, .shards = {5, 2, 5, 4}});
  shown.display.epoch({.epoch = 1, .shards = {4, 4, 4, 4}}, start);
  shown.display.balance({.epoch = 2, .step = 103, .shards = std::vector<int>(70, 1)});
  std::string many;
  for (int rank = 0; rank < 64; ++rank) many += " 1";
  EXPECT_EQ(shown.out.str(),
            "epoch 1/2  after step 10: shards of ranks 0 … 3: 5 2 5 4\n"
            "epoch  train loss  images/s  seconds\n"
            "    1      0.0000         0      0.0\n"
            "  shards of ranks 0 … 3: 4 4 4 4\n"
            "epoch 2/2  after step 3: shards of ranks 0 … 69:" +
                many + " …\n");
}

TEST(ProgressDisplay, ARowTakesThePlaceOfTheProgressLine) {
  Shown shown(true);
  shown.display.step(after(100), start);
  shown.display.epoch({.epoch = 1}, start);
  EXPECT_NE(shown.out.str().find("left\x1b[K\r\x1b[Kepoch  train loss"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::observe
