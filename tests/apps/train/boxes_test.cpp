// SPDX-License-Identifier: Apache-2.0
// Runs of a detector on the user's own pictures with boxes.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "vision/codec/codec.hpp"
#include "vision/user_files.hpp"

namespace lockstep::train {
namespace {

using vision::UserFiles;

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Pictures of three shapes, each with a bright rectangle of one of two classes, in YOLO's layout: 16 for training and
/// 7 for validation, one of them without a box.
class BoxFolder {
 public:
  BoxFolder() {
    for (int i = 0; i < 16; ++i) put("train", i);
    for (int i = 0; i < 7; ++i) put("val", i);
    files_.put("data.yaml", "train: images/train\nval: images/val\nnames: [wide, high]\n");
  }
  [[nodiscard]] std::string path(const std::string& relative = "") const { return files_.path(relative).string(); }
  [[nodiscard]] std::string options() const {
    return "--data " + path() + " --model yolov5n --img 64 --batch 8 --epochs 2 --threads 1 --shards 4 ";
  }
  /// Trains. @return the digest of the weights, and the metrics of the last evaluation
  [[nodiscard]] nlohmann::json result_of(int ranks, const std::string& arguments) const {
    UserFiles scratch;
    const std::string metrics = scratch.path("metrics.json").string();
    const auto result = run_train(ranks, options() + arguments + " --metrics " + metrics);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    nlohmann::json found;
    const auto events = read_metrics(metrics);
    if (events.empty()) return found;
    for (const auto& [name, value] : events.back().items())
      if (name.starts_with("final_") || name == "weights_sha256") found[name] = value;
    return found;
  }

 private:
  void put(const std::string& part, int i) const {
    const bool is_wide = i % 2 == 0;
    vision::Image picture;
    picture.resize(i % 3 == 0 ? 40 : 60, i % 3 == 1 ? 40 : 60, 3);
    const int width = is_wide ? 24 : 12;
    const int height = is_wide ? 12 : 24;
    const int left = 2 + i % 5;
    const int top = 3 + i % 7;
    for (int y = 0; y < picture.height; ++y)
      for (int x = 0; x < picture.width; ++x)
        for (int c = 0; c < 3; ++c)
          picture.pixels[static_cast<std::size_t>((y * picture.width + x) * 3 + c)] = static_cast<std::uint8_t>(
              x >= left && x < left + width && y >= top && y < top + height ? 230 - 20 * c : 40 + (x + y + i) % 9);
    const std::vector<std::byte> file = vision::encode_png(picture);
    const std::string name = part + "/" + std::to_string(100 + i);
    files_.put("images/" + name + ".png", {reinterpret_cast<const char*>(file.data()), file.size()});
    const auto part_of = [](double value, int whole) { return std::to_string(value / whole) + ' '; };
    files_.put("labels/" + name + ".txt",
               i == 5 ? std::string()
                      : (is_wide ? "0 " : "1 ") + part_of(left + width / 2.0, picture.width) +
                            part_of(top + height / 2.0, picture.height) + part_of(width, picture.width) +
                            part_of(height, picture.height) + "\n");
  }
  UserFiles files_;
};

TEST(OwnBoxes, MakeTheSameBitsAndMetricsOnAnyRanksWorkersAndCaches) {
  const BoxFolder folder;
  const nlohmann::json alone = folder.result_of(1, "--workers 0 --cache none");
  for (const char* name : {"weights_sha256", "final_map50", "final_map", "final_fitness", "final_loss"})
    ASSERT_TRUE(alone.contains(name)) << alone;
  EXPECT_EQ(folder.result_of(2, "--workers 3"), alone);
  EXPECT_EQ(folder.result_of(3, "--cache disk"), alone);
  EXPECT_NE(folder.result_of(1, "--augment none").at("weights_sha256"), alone.at("weights_sha256"));
}

TEST(OwnBoxes, MakeTheSameBitsBehindAResumeWithinAnEpoch) {
  const BoxFolder folder;
  const std::string run = folder.path("run");
  const auto first = run_train(2, folder.options() + "--lr-schedule constant --steps 3 --save-dir " + run);
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const nlohmann::json resumed = folder.result_of(3, "--steps all --save-dir " + run + " --resume last");
  EXPECT_EQ(resumed.at("weights_sha256"), folder.result_of(1, "--lr-schedule constant").at("weights_sha256"));
}

/// Predicts the validation part on ranks. @return the lines about the pictures, without the folder of the output
std::string boxes_found(int ranks, const BoxFolder& folder) {
  const std::string out = folder.path("out" + std::to_string(ranks));
  const auto result = run_train(ranks, "--resume " + folder.path("run") + " --predict " + folder.path("images/val") +
                                           " --conf 0.001 --max-det 3 --save-txt --save-dir " + out);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const char* file : {"/100.png", "/labels/100.txt", "/predictions.json"})
    EXPECT_TRUE(std::filesystem::exists(out + file)) << file << ": " << result.output;
  std::string lines = text_of_file(out + "/predictions.jsonl");
  for (std::size_t at = lines.find(out); at != std::string::npos; at = lines.find(out)) lines.erase(at, out.size());
  return lines;
}

TEST(OwnBoxes, AreFoundByACheckpointAlone) {
  const BoxFolder folder;
  ASSERT_TRUE(folder.result_of(2, "--save-dir " + folder.path("run")).contains("weights_sha256"));
  std::filesystem::remove_all(folder.path("images/train"));  // which the predictions do not need
  const std::string lines = boxes_found(1, folder);
  EXPECT_EQ(occurrences(lines, "\n"), 7) << lines;
  EXPECT_EQ(occurrences(lines, "\"boxes\":["), 7) << lines;
  EXPECT_GT(occurrences(lines, "\"name\":\"wide\"") + occurrences(lines, "\"name\":\"high\""), 0) << lines;
  EXPECT_EQ(boxes_found(3, folder), lines);
}

}  // namespace
}  // namespace lockstep::train
