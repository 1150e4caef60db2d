// SPDX-License-Identifier: Apache-2.0
// Runs of readers of text on the user's own pictures of lines.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "vision/codec/codec.hpp"
#include "vision/image/draw.hpp"
#include "vision/user_files.hpp"

namespace lockstep::train {
namespace {

constexpr int training_lines = 48;
constexpr int validation_lines = 13;

/// Pictures of lines of digits, listed as PaddleOCR does: 48 for training, 13 for validation.
class TextFolder {
 public:
  /// @param longest  most digits of a line
  explicit TextFolder(int longest = 7) : longest_(longest) {
    put("train", 0, training_lines);
    put("val", 100, validation_lines);
  }
  [[nodiscard]] std::string path(const std::string& relative = "") const { return files_.path(relative).string(); }
  [[nodiscard]] const vision::UserFiles& files() const { return files_; }
  /// The text of a line: digits from 0 to 3.
  [[nodiscard]] std::string digits_of(int number) const {
    std::string text;
    for (int i = 0; i < 1 + number % longest_; ++i)
      text += static_cast<char>('0' + (number * 7 + i * (number + 3)) % 4);
    return text;
  }
  /// Trains. @return the digest of the weights, and the metrics of the last evaluation
  [[nodiscard]] nlohmann::json result_of(int ranks, const std::string& arguments,
                                         const std::string& model = "crnn-mv3") const {
    return final_results(ranks, "--data " + path() + " --model " + model + " --threads 1 " + arguments,
                         path("metrics.json"));
  }

 private:
  void put(const std::string& part, int first, int count) const {
    std::string list;
    for (int i = first; i < first + count; ++i) {
      const std::string text = digits_of(i);
      vision::Image picture;
      picture.resize(vision::text_width(text) + 2 + i % 5, 18 + i % 4, 3);
      vision::fill({.width = picture.width, .height = picture.height}, {60, 90, 40}, picture);
      vision::draw_label(text, 1, 1, {60, 90, 40}, picture);
      const std::vector<std::byte> file = vision::encode_png(picture);
      const std::string name = part + '/' + std::to_string(i) + ".png";
      files_.put(name, {reinterpret_cast<const char*>(file.data()), file.size()});
      list += name + '\t' + text + "\r\n";
    }
    files_.put("rec_gt_" + part + ".txt", list);
  }
  int longest_;
  vision::UserFiles files_;
};

TEST(OwnTexts, MakeTheSameBitsAndMetricsOnAnyRanksWorkersAndCaches) {
  const TextFolder folder;
  const std::string options = "--epochs 2 --batch 8 --shards 4 --augment color-jitter --multi-scale 0.6,1.4 ";
  const nlohmann::json alone = folder.result_of(1, options + "--workers 0 --cache none");
  for (const char* name : {"weights_sha256", "final_accuracy", "final_ned", "final_loss"})
    ASSERT_TRUE(alone.contains(name)) << alone;
  EXPECT_EQ(folder.result_of(2, options + "--workers 3"), alone);
  EXPECT_EQ(folder.result_of(3, options + "--cache disk"), alone);
  EXPECT_EQ(folder.result_of(4, options), alone);
}

TEST(OwnTexts, MakeTheSameBitsAndMetricsOfCrnnVggOnAnyRanks) {
  const TextFolder folder(2);
  const std::string options = "--img 64x64 --steps 2 --batch 4 --shards 2 --save-dir none";
  const nlohmann::json alone = folder.result_of(1, options, "crnn-vgg");
  EXPECT_TRUE(alone.contains("final_ned")) << alone;
  EXPECT_EQ(folder.result_of(2, options, "crnn-vgg"), alone);
}

TEST(OwnTexts, MakeTheSameBitsBehindAResumeWithinAnEpochOnOtherRanks) {
  const TextFolder folder;
  const std::string options =
      "--epochs 1 --batch 8 --shards 4 --lr-schedule constant --warmup 0 --augment color-jitter --multi-scale 0.6,1.4 ";
  const std::string run = folder.path("run");
  (void)folder.result_of(2, options + "--steps 3 --save-dir " + run);
  const nlohmann::json resumed = folder.result_of(1, options + "--steps all --resume last --save-dir " + run);
  const nlohmann::json whole = folder.result_of(2, options);
  for (const char* name : {"weights_sha256", "final_accuracy", "final_ned"})
    EXPECT_EQ(resumed.at(name), whole.at(name));
}

/// Returns what was predicted, by the name of the picture.
nlohmann::json predicted_in(const std::string& out) {
  nlohmann::json predictions;
  std::ifstream lines(out + "/predictions.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto one = nlohmann::json::parse(line);
    predictions[std::filesystem::path(one.at("path").get<std::string>()).stem().string()] = one;
  }
  return predictions;
}

TEST(OwnTexts, AreLearnedInAShortRunAndPredictedByACheckpointAlone) {
  const TextFolder folder(2);
  const nlohmann::json untrained = folder.result_of(2, "--img 32x40 --batch 4 --steps 1 --lr 1e-9 --save-dir none");
  EXPECT_EQ(untrained.at("final_accuracy"), 0.0);
  const std::string run = folder.path("run");
  const nlohmann::json result = folder.result_of(
      2,
      "--img 32x40 --epochs 40 --batch 4 --optimizer adamw --lr 0.001 --weight-decay 0 --lr-schedule constant --warmup "
      "1 --eval-interval 40 --save-interval 40 --save-dir " +
          run);
  ASSERT_TRUE(result.contains("final_accuracy"));
  EXPECT_GE(result.at("final_accuracy"), 0.5);
  EXPECT_GE(result.at("final_ned"), 0.7);
  for (const char* list : {"rec_gt_train.txt", "rec_gt_val.txt"}) std::filesystem::remove(folder.path(list));
  const std::string out = folder.path("out");
  const auto predicted = run_train(3, "--resume " + run + " --predict " + folder.path("val") + " --save-dir " + out);
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  const nlohmann::json found = predicted_in(out);
  ASSERT_EQ(found.size(), static_cast<std::size_t>(validation_lines));
  int correct = 0;
  for (int i = 100; i < 100 + validation_lines; ++i) {
    const nlohmann::json& one = found.at(std::to_string(i));
    correct += one.at("text") == folder.digits_of(i) ? 1 : 0;
    EXPECT_GT(one.at("confidence"), 0.0);
    EXPECT_LE(one.at("confidence"), 1.0);
    EXPECT_TRUE(std::filesystem::exists(out + '/' + std::to_string(i) + ".png"));
  }
  EXPECT_EQ(result.at("final_accuracy"), static_cast<double>(correct) / validation_lines);
}

TEST(OwnTexts, AreCountedBeforeTrainingAndNotDroppedSilently) {
  const TextFolder folder;
  std::ofstream(folder.path("rec_gt_val.txt"), std::ios::app) << "val/100.png\t\nval/101.png\tx\nval/102.png\t01\n";
  folder.files().put("dict.txt", "0\n1\n2\n3\n");
  const auto result = run_train(1, "--data " + folder.path() + " --model crnn-mv3 --steps 1 --batch 4 --dict " +
                                       folder.path("dict.txt") + " --max-text 6");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::string text = testing_support::in_one_line(result.output);
  for (const char* part :
       {"Data: rec_gt", "4 classes", "characters of the class",
        "validation: texts without a character of the dictionary, left out: 2, first rec_gt_val.txt:14",
        "texts that are too long, left out (--max-text)",
        "left out of their texts (--dict): 1, of 1 kinds: 'x' 1 (first rec_gt_val.txt:15)",
        "samples listed again, kept: 1"})
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << result.output;
}

TEST(OwnTexts, AreRefusedByOtherModelsAndOptions) {
  const TextFolder folder;
  const std::string data = "--data " + folder.path();
  expect_refused(run_train(2, data + " --model lenet"), 2, {"which classification needs"});
  expect_refused(run_train(1, data + " --model crnn"), 2, {"--model crnn cannot be trained on", "no 'steps'"});
  expect_refused(run_train(1, data + " --model crnn-mv3 --per-class"), 2, {"--per-class"});
  expect_refused(run_train(1, data + " --model crnn-mv3 --augment flip"), 1, {"flip leaves no line of text"});
  expect_refused(run_train(1, data + " --model crnn-mv3 --img 32x90"), 1, {"32×90", "multiple of 4"});
  expect_refused(run_train(1, data + " --model crnn-mv3 --dict " + folder.path("none.txt")), 1, {"none.txt"});
  expect_refused(run_train(1, "--model crnn-mv3 --dict x"), 2, {"--dict is about the user's own pictures"});
  std::ofstream(folder.path("rec_gt_train.txt"), std::ios::app) << "broken line\n";
  expect_refused(run_train(2, data + " --model crnn-mv3"), 1, {"rec_gt_train.txt:49", "a tab"});
}

}  // namespace
}  // namespace lockstep::train
