// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"

namespace lockstep::train {
namespace {

struct Outcome {
  std::string output;
  std::vector<nlohmann::json> events;
  [[nodiscard]] std::string digest() const { return events.back().at("weights_sha256"); }
};

/// Runs a program in which rank 1 takes twice as long for each shard, which is a sleep for the most part.
Outcome run(const data::TemporaryDirectory& folder, int ranks, const std::string& arguments) {
  const std::string metrics = (folder.path() / "metrics").string();
  std::filesystem::remove(metrics);
  const auto result = testing_support::run_program(
      "SLOW_FACTOR=2 BASE_MS=3 " + std::string(LOCKSTEP_MPIEXEC) + " -np " + std::to_string(ranks) + ' ' +
      LOCKSTEP_ODD_RANKS +
      " --dataset synthetic-digits --model uneven --batch 32 --shards 16 --threads 1 --wait sleep" + " --metrics " +
      metrics + ' ' + arguments + " 2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  Outcome run{result.output, read_metrics(metrics)};
  EXPECT_FALSE(run.events.empty());
  return run;
}

std::vector<std::vector<int>> moves_of(const Outcome& run) {
  std::vector<std::vector<int>> moves;
  for (const nlohmann::json& event : run.events)
    if (event.at("event") == "balance") moves.push_back(event.at("shards"));
  return moves;
}

TEST(Balance, MovesShardsFromASlowRankAndKeepsTheBits) {
  const data::TemporaryDirectory folder;
  const std::string steps = "--save-dir none --eval-interval never --steps 30 ";
  const Outcome alone = run(folder, 1, steps);
  const Outcome apart = run(folder, 4, steps);
  EXPECT_TRUE(moves_of(apart).empty()) << "without --balance";
  const Outcome balanced = run(folder, 4, steps + "--balance");
  EXPECT_EQ(apart.digest(), alone.digest());
  EXPECT_EQ(balanced.digest(), alone.digest());
  const auto moves = moves_of(balanced);
  ASSERT_FALSE(moves.empty()) << balanced.output;
  for (const std::vector<int>& shards : moves) {
    ASSERT_EQ(shards.size(), 4U);
    EXPECT_EQ(std::accumulate(shards.begin(), shards.end(), 0), 16);
  }
  EXPECT_LT(moves.front()[1], 4) << balanced.output;
  EXPECT_EQ(occurrences(balanced.output, "after step "), static_cast<int>(moves.size())) << balanced.output;
  const auto epoch = std::find_if(balanced.events.begin(), balanced.events.end(),
                                  [](const nlohmann::json& event) { return event.at("event") == "epoch"; });
  ASSERT_NE(epoch, balanced.events.end());
  EXPECT_EQ(epoch->at("shards").get<std::vector<int>>(), moves.back());
  std::string row = "  shards of ranks 0 … 3:";
  for (const int shards : moves.back()) row += ' ' + std::to_string(shards);
  EXPECT_GE(occurrences(balanced.output, row + '\n'), 1) << balanced.output;
}

/// A checkpoint of a run whose shards have moved is that of any other run.
TEST(Balance, GoesOnFromACheckpointOnOtherRanksWithTheSameBits) {
  const data::TemporaryDirectory folder;
  const std::string options = "--sync-bn --zero --ema 0.9 --steps 24 --eval-interval 1 ";
  const Outcome alone = run(folder, 1, options + "--save-dir none");
  const auto saved = (folder.path() / "runs").string();
  const Outcome first = run(folder, 3, options + "--balance --save-steps 15 --save-dir " + saved);
  EXPECT_EQ(first.digest(), alone.digest());
  ASSERT_FALSE(moves_of(first).empty()) << first.output;
  std::filesystem::path checkpoint;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(saved))
    if (entry.is_directory() && entry.path().filename().string().find("step-") != std::string::npos)
      checkpoint = entry.path();
  ASSERT_FALSE(checkpoint.empty());
  const Outcome second = run(folder, 2, options + "--balance --save-dir none --resume " + checkpoint.string());
  EXPECT_EQ(second.digest(), alone.digest()) << second.output;
  EXPECT_EQ(second.events.back().at("best_loss"), alone.events.back().at("best_loss"));
}

TEST(Balance, NeedsShards) {
  const auto result = testing_support::run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_ODD_RANKS +
                                                   " --steps 1 --balance 2>&1");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_EQ(occurrences(result.output, "--balance moves shards, and there are none: give --shards N"), 1)
      << result.output;
}

}  // namespace
}  // namespace lockstep::train
