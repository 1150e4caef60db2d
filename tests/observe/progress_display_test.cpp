// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/progress_display.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace lockstep::observe {
namespace {

using std::chrono::milliseconds;

const Clock::time_point start{std::chrono::seconds(1000)};

ProgressOptions options(bool terminal) {
  return {
      .epochs = 2, .steps_per_epoch = 100, .images_per_epoch = {10'000}, .terminal = terminal, .interval_seconds = 5};
}

StepEvent step(std::int64_t number, std::int64_t epoch = 1, double rate = 100) {
  return {.epoch = epoch, .step = number, .loss = 1.25, .images_per_second = rate};
}

std::string plain_line(const StepEvent& event) {
  std::ostringstream out;
  ProgressDisplay(out, options(false)).step(event, start);
  return out.str();
}

TEST(ProgressDisplay, SaysWhereTrainingIsAndHowLongItTakesStill) {
  // Half of the first of two epochs of 10,000 images is done: 15,000 are left, at 100 a second.
  EXPECT_EQ(plain_line(step(50)), "epoch 1/2  step 50/100  loss 1.2500  100 images/s  2:30 left\n");
  EXPECT_EQ(plain_line(step(100, 2)), "epoch 2/2  step 100/100  loss 1.2500  100 images/s  0:00 left\n");
  EXPECT_EQ(plain_line(step(50, 1, 2)), "epoch 1/2  step 50/100  loss 1.2500  2 images/s  2:05:00 left\n");
  EXPECT_EQ(plain_line(step(50, 1, 0)), "epoch 1/2  step 50/100  loss 1.2500  0 images/s  ? left\n");
}

TEST(ProgressDisplay, PlainLinesKeepTheirInterval) {
  std::ostringstream out;
  ProgressDisplay display(out, options(false));
  for (int i = 0; i < 100; ++i) display.step(step(i), start + milliseconds(100 * i));
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);  // at 0 s and at 5 s
  EXPECT_NE(text.find("step 50/100"), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ProgressDisplay, ATerminalsLineIsRewritten) {
  std::ostringstream out;
  ProgressDisplay display(out, options(true));
  display.step(step(1), start);
  display.step(step(2), start + milliseconds(50));  // too soon
  display.step(step(3), start + milliseconds(150));
  EXPECT_EQ(out.str(),
            "epoch 1/2  step 1/100  loss 1.2500  100 images/s  3:19 left\r\x1b[K"
            "epoch 1/2  step 3/100  loss 1.2500  100 images/s  3:17 left");
}

TEST(ProgressDisplay, EpochsMakeATable) {
  std::ostringstream out;
  ProgressDisplay display(out, options(false));
  display.epoch({.epoch = 1,
                 .train_loss = 0.52352,
                 .val_loss = 0.25,
                 .val_accuracy = 0.9871,
                 .seconds = 12.34,
                 .images_per_second = 4800.4});
  display.epoch({.epoch = 2, .val_accuracy = 1});
  EXPECT_EQ(out.str(),
            "epoch  train loss  val loss  val accuracy  images/s  seconds\n"
            "    1      0.5235    0.2500       98.71 %      4800     12.3\n"
            "    2      0.0000    0.0000      100.00 %         0      0.0\n");
}

TEST(ProgressDisplay, ARowTakesThePlaceOfTheProgressLine) {
  std::ostringstream out;
  ProgressDisplay display(out, options(true));
  display.step(step(100), start);
  display.epoch({.epoch = 1});
  EXPECT_NE(out.str().find("left\r\x1b[Kepoch  train loss"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::observe
