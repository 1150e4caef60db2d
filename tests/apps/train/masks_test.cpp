// SPDX-License-Identifier: Apache-2.0
// Runs of a segmentation network on the user's own pictures with masks.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "vision/codec/codec.hpp"
#include "vision/source/file_source.hpp"
#include "vision/user_files.hpp"

namespace lockstep::train {
namespace {

enum class Sizes { equal, varied, large };

constexpr int first_evaluated = 20;
constexpr int evaluated = 5;

vision::Image read_mask(const std::string& file) {
  vision::Image mask;
  std::vector<std::byte> bytes;
  vision::decode_mask(file, bytes, mask);
  return mask;
}

/// Pictures of 32×32, or of other sizes, with a bright or a striped rectangle, and masks that say where: 12 for
/// training, 5 for validation.
class MaskFolder {
 public:
  explicit MaskFolder(Sizes sizes = Sizes::equal, const std::string& more_classes = "") : sizes_(sizes) {
    for (int i = 0; i < 12; ++i) put("train", i);
    for (int i = 0; i < evaluated; ++i) put("val", i + first_evaluated);
    files_.put("labels.txt", "ground\nbright\nstriped\n" + more_classes);
  }
  [[nodiscard]] std::string path(const std::string& relative = "") const { return files_.path(relative).string(); }
  /// Trains. @return the digest of the weights, and the metrics of the last evaluation
  [[nodiscard]] nlohmann::json result_of(int ranks, const std::string& arguments) const {
    const std::string model = arguments.find("--model") == std::string::npos ? " --model unet " : " ";
    return final_results(ranks, "--data " + path() + model + "--threads 1 " + arguments, path("metrics.json"));
  }

 private:
  void put(const std::string& part, int i) const {
    const int more = sizes_ == Sizes::large ? 90 : 0;
    const int width = sizes_ == Sizes::equal ? 32 : 33 + i * 7 % 23 + more;
    const int height = sizes_ == Sizes::equal ? 32 : 30 + i * 5 % 37 + more;
    vision::Image picture;
    picture.resize(width, height, 3);
    vision::Image mask;
    mask.resize(width, height, 1);
    const int left = 2 + i * 5 % 13;
    const int top = 1 + i * 7 % 11;
    const bool is_bright = i % 2 == 0;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const bool is_inside = x >= left && x < left + 14 && y >= top && y < top + 10;
        const bool is_light = is_inside && (is_bright || x % 4 < 2);
        const auto pixel = static_cast<std::size_t>(y * width + x);
        for (std::size_t c = 0; c < 3; ++c)
          picture.pixels[3 * pixel + c] = static_cast<std::uint8_t>(is_light ? 220 : 40 + (x * 3 + y * 5 + i) % 17);
        mask.pixels[pixel] = static_cast<std::uint8_t>(is_inside ? (is_bright ? 1 : 2) : 0);
      }
    const std::string name = part + "/" + std::to_string(i) + ".png";
    put_png("images/" + name, picture);
    put_png("masks/" + name, mask);
  }
  void put_png(const std::string& name, const vision::Image& picture) const {
    const std::vector<std::byte> file = vision::encode_png(picture);
    files_.put(name, {reinterpret_cast<const char*>(file.data()), file.size()});
  }
  Sizes sizes_;
  vision::UserFiles files_;
};

/// Checks that predictions.jsonl names, for each picture, the classes of its mask with their part of the pixels.
void expect_shares_of_pixels(const std::string& out) {
  std::ifstream lines(out + "/predictions.jsonl");
  int pictures = 0;
  for (std::string line; std::getline(lines, line); ++pictures) {
    const auto one = nlohmann::json::parse(line);
    const std::string name = std::filesystem::path(one.at("path").get<std::string>()).filename().string();
    const vision::Image mask = read_mask(out + "/masks/" + name);
    double sum = 0;
    for (const auto& found : one.at("classes")) {
      const auto pixels = std::ranges::count(mask.pixels, found.at("class").get<std::uint8_t>());
      EXPECT_NEAR(found.at("pixels").get<double>(),
                  static_cast<double>(pixels) / static_cast<double>(mask.pixels.size()), 1e-6);
      EXPECT_EQ(found.at("name"), (std::array{"ground", "bright", "striped"})[found.at("class").get<std::size_t>()]);
      sum += found.at("pixels").get<double>();
    }
    EXPECT_NEAR(sum, 1, 1e-5) << line;
  }
  EXPECT_EQ(pictures, evaluated);
}

/// Returns the mean intersection over union of masks that were predicted into a folder, counted pixel by pixel.
double miou_of(const MaskFolder& folder, const std::string& predicted) {
  constexpr std::size_t classes = 3;
  std::array<std::int64_t, classes> both{};
  std::array<std::int64_t, classes> either{};
  for (int i = first_evaluated; i < first_evaluated + evaluated; ++i) {
    const std::string name = std::to_string(i) + ".png";
    const vision::Image expected = read_mask(folder.path("masks/val/" + name));
    const vision::Image found = read_mask(predicted + "/masks/" + name);
    EXPECT_EQ(found.width, expected.width);
    EXPECT_EQ(found.height, expected.height);
    for (std::size_t pixel = 0; pixel < found.pixels.size(); ++pixel)
      for (std::size_t c = 0; c < classes; ++c) {
        both[c] += found.pixels[pixel] == c && expected.pixels[pixel] == c ? 1 : 0;
        either[c] += found.pixels[pixel] == c || expected.pixels[pixel] == c ? 1 : 0;
      }
  }
  double sum = 0;
  for (std::size_t c = 0; c < classes; ++c) sum += static_cast<double>(both[c]) / static_cast<double>(either[c]);
  return sum / classes;
}

TEST(OwnMasks, MakeTheSameBitsAndMetricsOnAnyRanksWorkersAndCaches) {
  const MaskFolder folder;
  const std::string augmented = "--epochs 2 --batch 4 --shards 4 --augment scale:0.7,1.5,flip,color-jitter ";
  const nlohmann::json alone = folder.result_of(1, augmented + "--workers 0 --cache none");
  for (const char* name : {"weights_sha256", "final_miou", "final_accuracy", "final_loss"})
    ASSERT_TRUE(alone.contains(name)) << alone;
  EXPECT_EQ(folder.result_of(2, augmented + "--workers 3"), alone);
  EXPECT_EQ(folder.result_of(3, augmented + "--cache disk"), alone);
  EXPECT_NE(folder.result_of(1, "--epochs 2 --batch 4 --shards 4 --augment none").at("weights_sha256"),
            alone.at("weights_sha256"));
}

/// The largest and the smallest factor of PaddleSeg's configurations for PP-LiteSeg.
TEST(OwnMasks, MakeTheSameBitsBehindAResumeWithinAnEpochOnOtherRanks) {
  const MaskFolder folder;
  const std::string options =
      "--epochs 2 --batch 4 --shards 4 --lr-schedule constant --warmup 0 "
      "--augment scale:0.125,1.5,random-crop,flip,color-jitter ";
  const std::string run = folder.path("run");
  (void)folder.result_of(2, options + "--steps 4 --save-dir " + run);
  const nlohmann::json resumed = folder.result_of(3, options + "--steps all --resume last --save-dir " + run);
  EXPECT_EQ(resumed.at("weights_sha256"), folder.result_of(1, options).at("weights_sha256"));
}

/// Returns what --per-class writes into the file of metrics, and what it prints.
std::pair<nlohmann::json, std::string> classes_of(const MaskFolder& folder, int ranks, const std::string& arguments) {
  const std::string metrics = folder.path("classes.json");
  std::filesystem::remove(metrics);
  const auto result =
      run_train(ranks, "--data " + folder.path() + " --threads 1 --per-class --metrics " + metrics + " " + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  nlohmann::json found;
  for (nlohmann::json event : read_metrics(metrics))
    if (event.at("event") == "classes") found = std::move(event);
  found.erase("time");
  const std::size_t table = result.output.find("\nclass  ");
  EXPECT_NE(table, std::string::npos) << result.output;
  const std::size_t end = result.output.find("\n\n", table);
  EXPECT_EQ(occurrences(testing_support::in_one_line(result.output), "which no test sample has: dark, light "), 1)
      << result.output;
  return {found, result.output.substr(table, end - table)};
}

/// Pixels of the last two classes are nowhere.
TEST(OwnMasks, HaveATableOfClassesThatIsTheSameOnAnyRanks) {
  const MaskFolder folder(Sizes::equal, "dark\nlight\n");
  const std::string run = folder.path("run");
  (void)folder.result_of(2, "--epochs 20 --batch 6 --eval-interval never --save-dir " + run);
  const std::string evaluation = "--model unet --eval-only --save-dir none --resume " + run;
  const auto [classes, table] = classes_of(folder, 1, evaluation);
  EXPECT_NE(table.find(" iou\n"), std::string::npos) << table;
  EXPECT_EQ(occurrences(table, "\n"), 7) << "a heading, five classes and their average: " << table;
  for (const int ranks : {2, 3}) {
    const auto [others, other_table] = classes_of(folder, ranks, evaluation);
    EXPECT_EQ(others, classes);
    EXPECT_EQ(other_table, table);
  }
}

TEST(OwnMasks, AreLearnedInAShortRunAndPredictedByACheckpointAlone) {
  const MaskFolder folder;
  const nlohmann::json result =
      folder.result_of(2, "--epochs 60 --batch 6 --eval-interval 60 --save-dir " + folder.path("run"));
  ASSERT_TRUE(result.contains("final_miou"));
  EXPECT_GE(result.at("final_miou"), 0.8) << "an untrained network has less than 0.3";
  std::filesystem::remove_all(folder.path("images/train"));  // which the predictions do not need
  const std::string out = folder.path("out");
  const auto predicted =
      run_train(3, "--resume " + folder.path("run") + " --predict " + folder.path("images/val") + " --save-dir " + out);
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  EXPECT_NEAR(miou_of(folder, out), result.at("final_miou").get<double>(), 1e-12);
  for (int i = first_evaluated; i < first_evaluated + evaluated; ++i) {
    const std::string name = std::to_string(i) + ".png";
    EXPECT_EQ(occurrences(contents_of(out + "/masks/" + name), "PLTE"), 1) << "it has no palette";
    EXPECT_TRUE(std::filesystem::exists(out + '/' + name));
  }
  expect_shares_of_pixels(out);
}

/// Whatever the size of the pictures and of the network's input, the pixels of the masks' files are counted.
TEST(OwnMasks, AreEvaluatedWholeInTheirOwnPixelsAtAnyScaleAndOnAnyRanks) {
  const MaskFolder folder(Sizes::varied);
  const std::string trained = folder.path("run");
  (void)folder.result_of(2, "--img 32 --epochs 10 --batch 6 --eval-interval never --save-dir " + trained);
  nlohmann::json other;
  for (const std::string scale : {"", " --eval-scale 0.5"}) {
    const std::string evaluation = "--eval-only --save-dir none --resume " + trained + scale;
    const nlohmann::json result = folder.result_of(1, evaluation);
    for (const char* name : {"final_miou", "final_accuracy"}) ASSERT_TRUE(result.contains(name)) << result;
    EXPECT_EQ(folder.result_of(2, evaluation), result);
    EXPECT_EQ(folder.result_of(3, evaluation), result);
    const std::string out = folder.path(scale.empty() ? "whole" : "half");
    const auto predicted =
        run_train(2, "--resume " + trained + " --predict " + folder.path("images/val") + " --save-dir " + out + scale);
    ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
    EXPECT_NEAR(miou_of(folder, out), result.at("final_miou").get<double>(), 1e-12) << scale;
    EXPECT_NE(result, other);
    other = result;
  }
}

/// A tile as large as the pictures is the picture; smaller ones change the context, but not which pixels count.
TEST(OwnMasks, AreEvaluatedInTilesOnAnyRanks) {
  const MaskFolder folder;
  const std::string trained = folder.path("run");
  (void)folder.result_of(2, "--epochs 10 --batch 6 --eval-interval never --save-dir " + trained);
  const std::string evaluation = "--eval-only --save-dir none --resume " + trained + " --eval-scale 4";
  const auto without_loss = [](nlohmann::json result) {  // that of a tile is a mean of its own
    result.erase("final_loss");
    return result;
  };
  const nlohmann::json whole = without_loss(folder.result_of(2, evaluation));
  EXPECT_EQ(without_loss(folder.result_of(2, evaluation + " --eval-tiles 64")), whole);
  EXPECT_EQ(run_train(1, "--data " + folder.path() + " --model unet --eval-tiles 16").exit_code, 2);
  const MaskFolder large(Sizes::large);
  const std::string tiled = "--eval-only --save-dir none --resume " + trained + " --eval-tiles 64";
  const nlohmann::json result = large.result_of(1, tiled);
  ASSERT_TRUE(result.contains("final_miou")) << result;
  EXPECT_NEAR(result.at("final_accuracy").get<double>(),
              large.result_of(1, "--eval-only --save-dir none --resume " + trained).at("final_accuracy").get<double>(),
              0.05);
  EXPECT_EQ(large.result_of(2, tiled), result);
  expect_refused(run_train(1, "--predict " + folder.path("images/val") + " --resume " + trained + " --eval-tiles 64"),
                 2, {"--eval-tiles beside --predict"});
  EXPECT_EQ(large.result_of(3, tiled + " --cache disk"), result);
}

TEST(OwnMasks, TrainPpLitesegOnAnyRanksAndItsHeadsAnewForOtherClasses) {
  const MaskFolder folder;
  const std::string options = "--model pp-liteseg --epochs 2 --batch 4 --shards 4 ";
  const nlohmann::json alone = folder.result_of(1, options + "--save-dir " + folder.path("run"));
  ASSERT_TRUE(alone.contains("final_miou")) << alone;
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(folder.result_of(ranks, options), alone);
  const MaskFolder other(Sizes::equal, "dark\n");
  const auto loaded = run_train(2, "--data " + other.path() + " --threads 1 --steps 1 " + options + "--weights " +
                                       folder.path("run/checkpoints/last/model.safetensors"));
  EXPECT_EQ(loaded.exit_code, 0) << loaded.output;
  const std::string text = testing_support::in_one_line(loaded.output);
  EXPECT_NE(text.find("the head is for another number of classes"), std::string::npos) << loaded.output;
  for (const char* drawn :
       {"seg_heads.0.conv_out.weight [3,32,1,1] [4,32,1,1]", "seg_heads.1.conv_out.weight [3,64,1,1] [4,64,1,1]",
        "seg_heads.2.conv_out.weight [3,64,1,1] [4,64,1,1]"})
    EXPECT_NE(text.find(drawn), std::string::npos) << drawn << '\n' << loaded.output;
}

TEST(OwnMasks, OfAListOfTheirOwnAreTheValidationPart) {
  const MaskFolder folder;
  const auto list = [&folder](const std::string& name, int first, int end) {
    std::ofstream file(folder.path(name));
    for (int i = first; i < end; ++i) file << "images/train/" << i << ".png masks/train/" << i << ".png\n";
    return folder.path(name);
  };
  const auto result = run_train(2, "--data " + list("part.txt", 0, 9) + " --val " + list("held-out.txt", 9, 12) +
                                       " --model unet --batch 4 --epochs 1 --threads 1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "(9 training and 3 test samples, "), 1) << result.output;
}

TEST(OwnMasks, AreRefusedByClassifiersAndMosaics) {
  const MaskFolder folder;
  expect_refused(run_train(1, "--data " + folder.path() + " --model lenet"), 2,
                 {"its pictures have", "classification needs"});
  expect_refused(run_train(1, "--data " + folder.path() + " --model unet --augment mosaic"), 1,
                 {"mosaic makes no masks"});
  expect_refused(run_train(1, "--data " + folder.path() + " --model unet --eval-scale 100"), 2, {"--eval-scale"});
}

}  // namespace
}  // namespace lockstep::train
