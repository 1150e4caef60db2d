// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"

namespace lockstep::train {
namespace {

/// Expects that the list names a straggler with this cause and at least this time of a step.
void expect_straggler(const nlohmann::json& ranks, int rank, const std::string& cause, double seconds) {
  const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const nlohmann::json& slow) {
    return slow.at("rank") == rank && slow.at("cause") == cause;
  });
  ASSERT_NE(found, ranks.end()) << ranks;
  EXPECT_TRUE(found->at("is_straggler")) << ranks;
  EXPECT_FALSE(found->at("host").get<std::string>().empty()) << ranks;
  EXPECT_GE(found->at("seconds"), seconds) << ranks;
  EXPECT_LT(found->at("usual_seconds"), found->at("seconds")) << ranks;
}

/// Both ranks that are slow, for different reasons, are named while they train and after the epoch. The run is longer
/// than the interval of reports.
TEST(Stragglers, ASlowBackwardAndStalledDataAreNamedWithRankHostAndCause) {
  const data::TemporaryDirectory folder;
  const std::string metrics = (folder.path() / "metrics").string();
  const auto result = testing_support::run_program(
      std::string(LOCKSTEP_MPIEXEC) + " -np 3 " + LOCKSTEP_ODD_RANKS +
      " --dataset stalls --model slow --batch 6 --steps 26 --seed 2 --workers 0 --threads 1 --wait sleep --stragglers" +
      " --eval-interval never --save-dir none --metrics " + metrics + " 2>&1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_GE(occurrences(result.output, " steps: slow ranks\n"), 1) << result.output;
  for (const char* rank : {"  rank 1 on ", "  rank 2 on "})
    EXPECT_GE(occurrences(result.output, rank), 2) << "live and after the epoch\n" << result.output;
  int reports = 0;
  for (const nlohmann::json& event : read_metrics(metrics)) {
    if (event.at("event") != "stragglers" && event.at("event") != "epoch") continue;
    ++reports;
    const nlohmann::json& ranks = event.at("slow_ranks");
    EXPECT_EQ(ranks.at(0).at("rank"), 1) << event;
    expect_straggler(ranks, 1, "compute", 0.2);
    expect_straggler(ranks, 2, "data", 0.15);
  }
  EXPECT_GE(reports, 2) << result.output;
}

/// A rank that is slow is no rank that hangs: its steps take long, but each is shorter than the deadline.
TEST(Stragglers, ARankFiftyTimesSlowerThanTheOthersIsNamedAndTheRunGoesOn) {
  const data::TemporaryDirectory folder;
  const std::string metrics = (folder.path() / "metrics").string();
  const auto result = testing_support::run_program(
      "SLOW_FACTOR=50 BASE_MS=8 " + std::string(LOCKSTEP_MPIEXEC) + " -np 3 " + LOCKSTEP_ODD_RANKS +
      " --dataset synthetic-digits --model uneven --batch 12 --shards 3 --steps 8 --threads 1 --wait sleep" +
      " --comm-timeout 5 --eval-interval never --save-dir none --metrics " + metrics + " 2>&1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const nlohmann::json& event : read_metrics(metrics))
    if (event.at("event") == "epoch") expect_straggler(event.at("slow_ranks"), 1, "compute", 0.4);
  EXPECT_GE(occurrences(result.output, "  rank 1 on "), 1) << result.output;
}

}  // namespace
}  // namespace lockstep::train
