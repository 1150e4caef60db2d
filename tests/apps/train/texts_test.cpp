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

struct Texts {
  std::vector<std::string> training;
  std::vector<std::string> validation;
};

/// Returns 48 texts for training and 13 for validation: one to seven digits from 0 to 3.
Texts of_few_digits() {
  const auto text = [](int number) {
    std::string digits;
    for (int i = 0; i < 1 + number % 7; ++i) digits += static_cast<char>('0' + (number * 7 + i * (number + 3)) % 4);
    return digits;
  };
  Texts texts;
  for (int i = 0; i < 48; ++i) texts.training.push_back(text(i));
  for (int i = 100; i < 113; ++i) texts.validation.push_back(text(i));
  return texts;
}

/// Returns the numbers from 00 to 99: every fifth one is in the validation part only.
Texts of_numbers(int times) {
  Texts texts;
  for (int i = 0; i < 100 * times; ++i) {
    const int number = i % 100;
    const std::string text = {static_cast<char>('0' + number / 10), static_cast<char>('0' + number % 10)};
    const bool is_held_out = (number + number / 10) % 5 == 0;
    if (!is_held_out) texts.training.push_back(text);
    if (is_held_out && i < 100) texts.validation.push_back(text);
  }
  return texts;
}

constexpr int first_of_validation = 100;  // the name of its first picture

/// Pictures of lines of text in one font, listed as PaddleOCR does.
class TextFolder {
 public:
  explicit TextFolder(const Texts& texts = of_few_digits()) {
    put("train", 0, texts.training);
    put("val", first_of_validation, texts.validation);
  }
  [[nodiscard]] std::string path(const std::string& relative = "") const { return files_.path(relative).string(); }
  [[nodiscard]] const vision::UserFiles& files() const { return files_; }
  /// Trains. @return the digest of the weights, and the metrics of the last evaluation
  [[nodiscard]] nlohmann::json result_of(int ranks, const std::string& arguments) const {
    return final_results(ranks, "--data " + path() + " --model crnn-mv3 --threads 1 " + arguments,
                         path("metrics.json"));
  }

 private:
  void put(const std::string& part, int first, const std::vector<std::string>& texts) const {
    std::string list;
    for (int i = first; const std::string& text : texts) {
      vision::Image picture;
      picture.resize(vision::text_width(text) + 2 + i % 5, 18 + i % 4, 3);
      vision::fill({.width = picture.width, .height = picture.height}, {60, 90, 40}, picture);
      vision::draw_label(text, 1, 1, {60, 90, 40}, picture);
      const std::vector<std::byte> file = vision::encode_png(picture);
      const std::string name = part + '/' + std::to_string(i) + ".png";
      files_.put(name, {reinterpret_cast<const char*>(file.data()), file.size()});
      list += name + '\t' + text + "\r\n";
      ++i;
    }
    files_.put("rec_gt_" + part + ".txt", list);
  }
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

/// What is read are numbers that no training line has.
TEST(OwnTexts, AreLearnedInAShortRunAndPredictedByACheckpointAlone) {
  const Texts texts = of_numbers(3);
  const TextFolder folder(texts);
  const nlohmann::json untrained = folder.result_of(2, "--img 32x40 --batch 4 --steps 1 --lr 1e-9 --save-dir none");
  EXPECT_LT(untrained.at("final_accuracy"), 0.1);
  const std::string run = folder.path("run");
  const nlohmann::json result = folder.result_of(
      2,
      "--img 32x40 --epochs 16 --batch 8 --optimizer adamw --lr 0.001 --weight-decay 0 --lr-schedule constant --warmup "
      "1 --eval-interval 16 --save-interval 16 --save-dir " +
          run);
  ASSERT_TRUE(result.contains("final_accuracy"));
  EXPECT_GE(result.at("final_accuracy"), 0.5);
  EXPECT_GE(result.at("final_ned"), 0.7);
  for (const char* list : {"rec_gt_train.txt", "rec_gt_val.txt"}) std::filesystem::remove(folder.path(list));
  const std::string out = folder.path("out");
  const auto predicted = run_train(3, "--resume " + run + " --predict " + folder.path("val") + " --save-dir " + out);
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  const nlohmann::json found = predicted_in(out);
  ASSERT_EQ(found.size(), texts.validation.size());
  int correct = 0;
  for (int i = first_of_validation; const std::string& text : texts.validation) {
    const std::string name = std::to_string(i++);
    const nlohmann::json& one = found.at(name);
    correct += one.at("text") == text ? 1 : 0;
    EXPECT_GT(one.at("confidence"), 0.0);
    EXPECT_LE(one.at("confidence"), 1.0);
    EXPECT_TRUE(std::filesystem::exists(out + '/' + name + ".png"));
  }
  EXPECT_EQ(result.at("final_accuracy"), correct / static_cast<double>(texts.validation.size()));
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
