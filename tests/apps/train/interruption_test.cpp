// SPDX-License-Identifier: Apache-2.0
#include "apps/train/train_program.hpp"
#include "support/background_job.hpp"

namespace lockstep::train {
namespace {

using std::chrono::seconds;
using testing_support::BackgroundJob;
using testing_support::becomes_true;
using testing_support::processes;

/// Three ranks that would train for hours; the metrics file's name marks their processes.
class Interruption : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(becomes_true(seconds(60), [this] { return is_training() || job_.has_ended(); }));
    ASSERT_FALSE(job_.has_ended()) << output();
    ASSERT_EQ(ranks().size(), 3U);
  }

  [[nodiscard]] std::vector<pid_t> ranks() const { return processes(LOCKSTEP_TRAIN, metrics_); }
  [[nodiscard]] std::string output() const { return data::read_all(digits_.file("output")); }
  void expect_end(seconds within) {
    EXPECT_TRUE(becomes_true(within, [this] { return job_.has_ended() && processes("", metrics_).empty(); }))
        << "left: " << processes("", metrics_).size() << " processes\n"
        << output();
    ASSERT_TRUE(job_.has_ended());
    EXPECT_NE(job_.exit_code(), 0) << output();
  }

  BackgroundJob& job() { return job_; }

 private:
  [[nodiscard]] bool is_training() const { return occurrences(data::read_all(metrics_), R"("event":"step")") > 1; }

  SmallDigits digits_;
  std::string metrics_ = digits_.path("metrics.json");
  BackgroundJob job_{
      train_command(3, digits_.arguments() + " --batch 12 --epochs 10000000 --log-every 1 --metrics " + metrics_),
      digits_.file("output")};
};

TEST_F(Interruption, AKilledRankEndsTheJobWithinFiveSeconds) {
  kill(ranks().back(), SIGKILL);
  expect_end(seconds(5));
}

TEST_F(Interruption, SoDoesRankZero) {
  kill(ranks().front(), SIGKILL);
  expect_end(seconds(5));
}

TEST_F(Interruption, CtrlCLeavesNoProcess) {
  job().interrupt();
  expect_end(seconds(10));
}

}  // namespace
}  // namespace lockstep::train
