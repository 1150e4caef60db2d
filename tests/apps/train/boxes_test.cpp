// SPDX-License-Identifier: Apache-2.0
// Runs of a detector on the user's own pictures with boxes.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "apps/train/box_folder.hpp"
#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"

namespace lockstep::train {
namespace {

/// Trains. @return the digest of the weights, and the metrics of the last evaluation
nlohmann::json result_of(const BoxFolder& folder, int ranks, const std::string& arguments) {
  const std::string epochs = arguments.find("--epochs") == std::string::npos ? "--epochs 2 " : "";
  return final_results(ranks, folder.options() + epochs + arguments, folder.path("metrics.json"));
}

TEST(OwnBoxes, MakeTheSameBitsAndMetricsOnAnyRanksWorkersAndCaches) {
  const BoxFolder folder;
  const nlohmann::json alone = result_of(folder, 1, "--workers 0 --cache none");
  for (const char* name : {"weights_sha256", "final_map50", "final_map", "final_fitness", "final_loss"})
    ASSERT_TRUE(alone.contains(name)) << alone;
  EXPECT_EQ(result_of(folder, 2, "--workers 3"), alone);
  EXPECT_EQ(result_of(folder, 3, "--cache disk"), alone);
  EXPECT_EQ(result_of(folder, 4, "--workers 0"), alone);
  EXPECT_NE(result_of(folder, 1, "--augment none").at("weights_sha256"), alone.at("weights_sha256"));
}

TEST(OwnBoxes, AreLearnedInAShortRun) {
  const BoxFolder folder;
  const nlohmann::json result = result_of(
      folder, 2,
      "--epochs 75 --lr 0.02 --augment none --nominal-batch off --warmup-least-steps 10 --ema 0.9 --ema-ramp 20 "
      "--eval-interval 75");
  ASSERT_TRUE(result.contains("final_map50"));
  EXPECT_GE(result.at("final_map50"), 0.9) << "an untrained network has 0.0";
  EXPECT_GE(result.at("final_map"), 0.5);
}

TEST(OwnBoxes, MakeTheSameBitsBehindAResumeWithinAnEpoch) {
  const BoxFolder folder;
  const std::string run = folder.path("run");
  const auto first = run_train(2, folder.options() + "--epochs 2 --lr-schedule constant --steps 3 --save-dir " + run);
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const nlohmann::json resumed = result_of(folder, 3, "--steps all --save-dir " + run + " --resume last");
  EXPECT_EQ(resumed.at("weights_sha256"), result_of(folder, 1, "--lr-schedule constant").at("weights_sha256"));
}

/// Predicts the validation part on ranks. @return the lines about the pictures, without the folder of the output
std::string boxes_found(int ranks, const BoxFolder& folder) {
  const std::string out = folder.path("out" + std::to_string(ranks));
  const auto result = run_train(ranks, "--resume " + folder.path("run") + " --predict " + folder.path("images/val") +
                                           " --conf 0.001 --max-det 3 --save-txt --save-dir " + out);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const char* file : {"/100.png", "/labels/100.txt", "/predictions.json"})
    EXPECT_TRUE(std::filesystem::exists(out + file)) << file << ": " << result.output;
  std::string lines = contents_of(out + "/predictions.jsonl");
  for (std::size_t at = lines.find(out); at != std::string::npos; at = lines.find(out)) lines.erase(at, out.size());
  return lines;
}

TEST(OwnBoxes, AreFoundByACheckpointAlone) {
  const BoxFolder folder;
  ASSERT_TRUE(result_of(folder, 2, "--save-dir " + folder.path("run")).contains("weights_sha256"));
  std::filesystem::remove_all(folder.path("images/train"));  // which the predictions do not need
  const std::string lines = boxes_found(1, folder);
  EXPECT_EQ(occurrences(lines, "\n"), 7) << lines;
  EXPECT_EQ(occurrences(lines, "\"boxes\":["), 7) << lines;
  EXPECT_GT(occurrences(lines, "\"name\":\"wide\"") + occurrences(lines, "\"name\":\"high\""), 0) << lines;
  EXPECT_EQ(boxes_found(3, folder), lines);
}

TEST(OwnBoxes, OfCocoArePredictedWithItsCategories) {
  const BoxFolder folder;
  folder.put_coco();
  const auto trained = run_train(2, folder.options("images/train/boxes.json") + "--epochs 2 --val " +
                                        folder.path("images/val/boxes.json") + " --save-dir " + folder.path("run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  // There are fewer pictures than ranks.
  const auto result =
      run_train(3, "--resume " + folder.path("run") + " --predict " + folder.path("images/val/103.png") + ' ' +
                       folder.path("images/val/104.png") + " --conf 0.0001 --save-dir " + folder.path("out"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto found = nlohmann::json::parse(contents_of(folder.path("out/predictions.json")));
  std::set<std::pair<int, int>> seen;
  for (const auto& one : found) seen.emplace(one.at("image_id"), one.at("category_id"));
  EXPECT_EQ(seen, (std::set<std::pair<int, int>>{{103, 3}, {103, 90}, {104, 3}, {104, 90}}));
}

}  // namespace
}  // namespace lockstep::train
