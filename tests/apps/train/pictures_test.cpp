// SPDX-License-Identifier: Apache-2.0
// Runs on the user's own pictures.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <regex>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "vision/codec/codec.hpp"
#include "vision/user_files.hpp"

namespace lockstep::train {
namespace {

using vision::UserFiles;

/// Returns the bytes of a PNG file whose pixels follow from a number.
std::string png(int number, int width = 12, int height = 10) {
  vision::Image picture;
  picture.resize(width, height, 3);
  for (std::size_t i = 0; i < picture.pixels.size(); ++i)
    picture.pixels[i] = static_cast<std::uint8_t>(i * i * (static_cast<std::size_t>(number) + 3) % 251);
  const std::vector<std::byte> file = vision::encode_png(picture);
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

/// A folder of classes: 2 × 24 pictures for training, 2 × 5 for validation.
class PictureFolder {
 public:
  PictureFolder() {
    for (int i = 0; i < 24; ++i) put("train", i);
    for (int i = 0; i < 5; ++i) put("val", i);
  }
  [[nodiscard]] const UserFiles& files() const { return files_; }
  [[nodiscard]] std::string path(const std::string& relative = "") const { return files_.path(relative).string(); }

  /// Trains, and returns the digest of the weights.
  [[nodiscard]] std::string digest(int ranks, const std::string& arguments) const {
    UserFiles scratch;
    const std::string metrics = scratch.path("metrics.json").string();
    const auto result = run_train(ranks, options() + arguments + " --metrics " + metrics);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const auto events = read_metrics(metrics);
    return events.empty() ? "none" : events.back().at("weights_sha256").get<std::string>();
  }
  [[nodiscard]] std::string options() const {
    return "--data " + path() + " --model lenet --batch 12 --epochs 2 --threads 1 ";
  }

 private:
  void put(const std::string& part, int i) const {
    files_.put(part + "/cat/" + std::to_string(100 + i) + ".png", png(2 * i));
    files_.put(part + "/dog/" + std::to_string(100 + i) + ".png", png(2 * i + 1));
  }
  UserFiles files_;
};

TEST(OwnPictures, MakeTheSameBitsOnAnyRanksWorkersAndCaches) {
  const PictureFolder folder;
  const std::string options = "--shards 4 --augment crop:2,flip,color-jitter ";
  const std::string alone = folder.digest(1, options + "--workers 0 --cache none");
  EXPECT_EQ(folder.digest(2, options + "--workers 3"), alone);
  EXPECT_EQ(folder.digest(3, options + "--cache disk"), alone);
  EXPECT_EQ(folder.digest(2, options + "--cache ram --cache-mb 1"), alone);
  EXPECT_NE(folder.digest(1, "--shards 4 --augment crop:2,flip"), alone);
}

/// Pictures of 640×480 have 0.9 MiB each. A full cache changes no bits.
TEST(OwnPictures, TakeNoMoreOfTheDiskThanTheCacheMay) {
  const UserFiles files;
  for (int i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i) + ".png";
    files.put("train/cat/" + name, png(2 * i, 640, 480));
    files.put("train/dog/" + name, png(2 * i + 1, 640, 480));
  }
  const auto cached = [&files](const std::string& options, std::string& digest) {
    const std::string metrics = files.path("metrics.json").string();
    const auto result = run_train(
        2,
        "--data " + files.path().string() +
            " --model lenet --img 32 --batch 4 --epochs 2 --threads 1 --eval-interval never --cache disk --metrics " +
            metrics + options);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    digest = read_metrics(metrics).back().at("weights_sha256").get<std::string>();
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(files.path())) {
      const std::string place = entry.path().string();
      if (entry.is_regular_file() && place.find("/.lockstep-pictures-") != std::string::npos)
        bytes += entry.file_size();
    }
    return bytes;
  };
  std::string all;
  std::string some;
  const std::uintmax_t mebibyte = std::uintmax_t{1} << 20;
  const std::uintmax_t least = cached(" --cache-mb 2", some);
  EXPECT_GT(least, mebibyte);
  EXPECT_LT(least, 3 * mebibyte);
  EXPECT_GT(cached(" --cache-mb 12", all), 11 * mebibyte);
  EXPECT_EQ(some, all);
}

TEST(OwnPictures, MakeTheSameBitsBehindAResumeWithinAnEpoch) {
  const PictureFolder folder;
  const std::string options = "--shards 4 --augment crop:2,flip --lr-schedule constant ";
  const std::string alone = folder.digest(1, options);
  const std::string run = folder.path("run");
  const auto first = run_train(2, folder.options() + options + "--steps 6 --save-dir " + run);
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_EQ(folder.digest(3, "--steps all --save-dir " + run + " --resume last"), alone);
}

TEST(OwnPictures, AreCountedBeforeTraining) {
  const PictureFolder folder;
  folder.files().put("train/cat/old.bmp", "BM");
  const auto result = run_train(2, folder.options());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* part : {"Data: folder, ", ", 2 classes\n", "    cat ", "    dog ", "BMP",
                           "pictures of 12×10 pixels; training transforms none; evaluation transforms none"})
    EXPECT_EQ(occurrences(result.output, part), 1) << part << '\n' << result.output;
}

TEST(OwnPictures, StopWhereOneIsBad) {
  const PictureFolder folder;
  folder.files().put("train/dog/105.png", png(11).substr(0, 60));
  const auto result = run_train(2, folder.options());
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_GE(occurrences(result.output, folder.path("train/dog/105.png")), 1) << result.output;
  EXPECT_GE(occurrences(result.output, "the PNG is cut off; replace the file, or skip such samples"), 1);
}

TEST(OwnPictures, AreSkippedAndListedWhereTheyAreBad) {
  const PictureFolder folder;
  folder.files().put("train/dog/105.png", png(11).substr(0, 60));
  folder.files().put("val/cat/101.png", "no picture");
  const std::string options = "--on-bad-sample skip --shards 4 ";
  const std::string alone = folder.digest(1, options);
  const std::string run = folder.path("run");
  EXPECT_EQ(folder.digest(2, options + "--save-dir " + run), alone);
  const std::string list = contents_of(run + "/bad_samples.txt");
  EXPECT_EQ(occurrences(list, "\n"), 2) << list;
  for (const char* part : {"training\t29\t", "train/dog/105.png\tthe PNG is cut off", "validation\t1\t",
                           "val/cat/101.png\tthis is no picture"})
    EXPECT_EQ(occurrences(list, part), 1) << part << '\n' << list;
}

TEST(OwnPictures, ThatDifferBetweenRanksAreNamed) {
  const PictureFolder one;
  const PictureFolder other;
  other.files().put("train/cat/107.png", png(77));
  const auto on = [](const PictureFolder& folder) {
    return std::string(LOCKSTEP_TRAIN) + " --save-dir none " + folder.options();
  };
  const auto result = testing_support::run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 1 " + on(one) + " : -np 1 " +
                                                   on(other) + " 2>&1");
  expect_refused(result, 1,
                 {"sample 7 is the first that differs: rank 0 on ", "give all ranks the same files (--data)"});
}

/// Shows the first batch of data of each of two ranks.
testing_support::ProgramResult run_on_each(const UserFiles& one, const UserFiles& other, const std::string& data) {
  const auto on = [&](const UserFiles& user) {
    return std::string(LOCKSTEP_TRAIN) + " --model lenet --batch 2 --threads 1 --show-batch " +
           one.path("sheet.png").string() + " --data " + user.path(data).string();
  };
  return testing_support::run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 1 " + on(one) + " : -np 1 " + on(other) +
                                      " 2>&1");
}

TEST(OwnPictures, WhoseBoxesDifferBetweenRanksAreNamed) {
  const UserFiles one;
  const UserFiles other;
  std::string images;
  std::string boxes;
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    for (const UserFiles* user : {&one, &other}) {
      user->put("images/train/" + number + ".png", png(i));
      user->put("images/val/" + number + ".png", png(i));
      user->put("labels/train/" + number + ".txt", "0 0.5 0.5 0.5 0.5\n");
      user->put("labels/val/" + number + ".txt", "0 0.5 0.5 0.5 0.5\n");
      user->put("classes.txt", "cell\n");
    }
    images += (i > 0 ? ", " : "") + ("{\"id\": " + number) + ", \"file_name\": \"" + number + ".png\"}";
    boxes += (i > 0 ? ", " : "") + ("{\"image_id\": " + number) +
             ", \"category_id\": 7, \"bbox\": [1, 1, 5, 5], \"area\": 20}";
  }
  EXPECT_EQ(run_on_each(one, other, "").exit_code, 0);
  other.put("labels/train/2.txt", "0 0.5 0.5 0.5 0.6\n");
  expect_refused(run_on_each(one, other, ""), 1,
                 {"sample 2 is the first that differs: rank 0 on ", "give all ranks the same files (--data)"});
  const std::string coco = "{\"images\": [" + images + "], \"annotations\": [" + boxes +
                           "], \"categories\": [{\"id\": 7, \"name\": \"cell\"}]}";
  one.put("images/train/boxes.json", coco);
  other.put("images/train/boxes.json", coco);
  EXPECT_EQ(run_on_each(one, other, "images/train/boxes.json").exit_code, 0);
  other.put("images/train/boxes.json", std::regex_replace(coco, std::regex("20\\}\\], "), "21}], "));
  expect_refused(run_on_each(one, other, "images/train/boxes.json"), 1,
                 {"sample 3 is the first that differs: rank 0 on ", "give all ranks the same files (--data)"});
}

TEST(OwnPictures, AreShownAsTheNetworkSeesThem) {
  const PictureFolder folder;
  const std::string sheet = folder.path("sheet.png");
  const auto result = run_train(2, folder.options() + "--show-batch " + sheet);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "epoch  "), 0) << "it trains: " << result.output;
  const std::string bytes = contents_of(sheet);
  EXPECT_EQ(vision::inspect(std::as_bytes(std::span(bytes))).format, vision::PictureFormat::png);
}

/// The boxes of VOC's annotations are drawn into the sheet.
TEST(OwnPictures, AreShownWithTheirBoxes) {
  const auto sheet_of = [](const std::string& corner) {
    const UserFiles files;
    files.put("JPEGImages/1.png", png(1, 40, 30));
    files.put("ImageSets/Main/train.txt", "1\n");
    files.put("Annotations/1.xml",
              "<annotation><filename>1.png</filename><size><width>40</width><height>30</height></size><object>"
              "<name>cell</name><bndbox><xmin>4</xmin><ymin>5</ymin><xmax>" +
                  corner + "</xmax><ymax>20</ymax></bndbox></object></annotation>");
    const std::string sheet = files.path("sheet.png").string();
    const auto result = run_train(1, "--data " + files.path().string() +
                                         " --model yolov5n --img 64 --batch 1 --augment none --show-batch " + sheet);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return contents_of(sheet);
  };
  const std::string sheet = sheet_of("20");
  EXPECT_EQ(sheet_of("20"), sheet);
  EXPECT_NE(sheet_of("30"), sheet);
}

TEST(OwnPictures, AreInTheEventFilesAndTheTableOfClasses) {
  const PictureFolder folder;
  const std::string board = folder.path("board");
  const auto result = run_train(2, folder.options() + "--per-class --tensorboard " + board);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string events = contents_of(std::filesystem::directory_iterator(board)->path());
  EXPECT_EQ(occurrences(events, "val/predictions"), 2) << "after each epoch";
  EXPECT_EQ(occurrences(events, "\x89PNG"), 2);
  for (const char* line : {"\ncat                     5  ", "\ndog                     5  "})
    EXPECT_EQ(occurrences(result.output, line), 1) << result.output;
}

/// Predicts on ranks, and returns the lines about the pictures.
std::string predictions_of(int ranks, const PictureFolder& folder, const std::string& paths) {
  const std::string out = folder.path("out" + std::to_string(ranks));
  const auto result = run_train(
      ranks, "--resume " + folder.path("run") + " --predict " + paths + " --on-bad-sample skip --save-dir " + out);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(std::filesystem::exists(out + "/104.png")) << result.output;
  EXPECT_EQ(occurrences(std::regex_replace(result.output, std::regex("\n *"), " "), "12 pictures to predict, 2"), 1)
      << result.output;
  EXPECT_EQ(occurrences(result.output, "learning rate"), 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "the first is " + folder.path("more/none.jpg") + ": this is no picture"), 1)
      << result.output;
  std::string lines = contents_of(out + "/predictions.jsonl");
  for (std::size_t at = lines.find(out); at != std::string::npos; at = lines.find(out)) lines.erase(at, out.size());
  return lines;
}

TEST(OwnPictures, ArePredictedByACheckpointAlone) {
  const PictureFolder folder;
  ASSERT_NE(folder.digest(2, "--save-dir " + folder.path("run")), "none");
  std::filesystem::remove_all(folder.path("train"));  // which the predictions do not need
  folder.files().put("more/large.png", png(5, 40, 30));
  folder.files().put("more/none.jpg", "no picture");
  const std::string lines = predictions_of(1, folder, folder.path("val") + ',' + folder.path("more"));
  EXPECT_EQ(occurrences(lines, "\n"), 12) << lines;
  for (const char* part : {"\"name\":\"cat\"", "\"name\":\"dog\"", "\"score\":"})
    EXPECT_EQ(occurrences(lines, part), part[1] == 's' ? 22 : 11) << lines;
  EXPECT_EQ(occurrences(lines, "none.jpg\",\"error\":"), 1) << lines;
  EXPECT_EQ(predictions_of(3, folder, folder.path("val") + ' ' + folder.path("more")), lines);
}

TEST(OwnPictures, AreEvaluatedByTheClassNamesOfTheCheckpoint) {
  const PictureFolder folder;
  ASSERT_NE(folder.digest(2, "--save-dir " + folder.path("run")), "none");
  UserFiles other;
  std::string list;
  for (int i = 0; i < 5; ++i) {
    other.put(std::to_string(i) + ".png", png(2 * i + 1));
    list += std::to_string(i) + ".png 0\n";
  }
  other.put("val_list.txt", list);
  other.put("label_list.txt", "dog\ncat\n");
  const std::string options = "--eval-only --resume " + folder.path("run") + " --per-class --data ";
  const auto result = run_train(2, options + other.path().string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* line : {"\ncat                     0  ", "\ndog                     5  "})
    EXPECT_EQ(occurrences(result.output, line), 1) << result.output;
  other.put("label_list.txt", "horse\ncat\n");
  expect_refused(run_train(2, options + other.path().string()), 1,
                 {"0.png is of the class 'horse', which is none of the 2 classes of the model, cat, dog"});
}

/// Training pictures that are all small and equal are not transformed, but those of the validation part have to be.
TEST(OwnPictures, OfTheValidationPartMayHaveAnotherSize) {
  const PictureFolder folder;
  folder.files().put("val/cat/large.png", png(5, 40, 30));
  const auto result = run_train(2, folder.options());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(testing_support::in_one_line(result.output),
                        "pictures of 12×10 pixels; training transforms random-resized-crop:10x12,flip; evaluation "
                        "transforms resize:"),
            1)
      << result.output;
  EXPECT_EQ(occurrences(result.output, "11 test samples"), 1) << result.output;
}

TEST(OwnPictures, NeedThePartsThatARunUses) {
  const PictureFolder folder;
  const std::string train = folder.path("train");
  const std::string options = "--model lenet --batch 12 --epochs 1 --data " + train;
  expect_refused(run_train(2, options), 1, {"has no validation part", "--val-split 0.1", "--eval-interval never"});
  EXPECT_EQ(run_train(2, options + " --eval-interval never").exit_code, 0);
  EXPECT_EQ(run_train(2, options + " --val-split 0.25").exit_code, 0);
  EXPECT_EQ(run_train(2, options + " --val " + folder.path("val")).exit_code, 0);
}

/// Returns the sizes of the steps in a file of metrics, and the digest of the weights behind them.
std::vector<std::string> sizes_and_digest(const std::string& metrics) {
  std::vector<std::string> found;
  for (const auto& event : read_metrics(metrics)) {
    if (event.at("event") == "step") found.push_back(event.at("img").dump());
    if (event.at("event") == "end") found.push_back(event.at("weights_sha256").get<std::string>());
  }
  return found;
}

class MultiScale : public testing::Test {
 protected:
  /// Trains in steps of 8×8 and 16×16 pixels. @return the sizes of the steps, and the digest of the weights
  [[nodiscard]] std::vector<std::string> train(int ranks, const std::string& arguments) const {
    UserFiles scratch;
    const std::string metrics = scratch.path("metrics.json").string();
    const auto result = run_train(ranks, options() + arguments + " --log-every 1 --metrics " + metrics);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return sizes_and_digest(metrics);
  }
  [[nodiscard]] std::string options(const std::string& model = "resnet20", const std::string& scales = "") const {
    return "--data " + folder_.path() + " --img 12 --multi-scale " + scales + " --model " + model +
           " --batch 10 --epochs 2 --threads 1 --lr-schedule constant --warmup 0 --shards 4 ";
  }
  [[nodiscard]] const PictureFolder& folder() const { return folder_; }

 private:
  PictureFolder folder_;
};

TEST_F(MultiScale, MakesTheSameSizesAndBitsOnAnyRanksAndWorkersAndBehindAResume) {
  const std::vector<std::string> alone = train(1, "--workers 0 --cache none");
  ASSERT_EQ(alone.size(), 11U) << "5 steps an epoch";
  EXPECT_EQ(std::count(alone.begin(), alone.end(), "[8,8]") + std::count(alone.begin(), alone.end(), "[16,16]"), 10);
  EXPECT_NE(std::count(alone.begin(), alone.end(), "[8,8]") % 10, 0) << "both occur";
  EXPECT_EQ(train(2, "--workers 3"), alone);
  const std::string run = folder().path("run");
  const std::vector<std::string> begin = train(4, "--cache disk --steps 3 --save-dir " + run);
  const std::vector<std::string> rest = train(2, "--steps all --save-dir " + run + " --resume last");
  EXPECT_TRUE(std::equal(begin.begin(), begin.end() - 1, alone.begin()));
  EXPECT_EQ(rest, std::vector<std::string>(alone.begin() + 3, alone.end()));
}

TEST_F(MultiScale, SaysItsSizesAndWhatTheirPlansTake) {
  const auto result = run_train(2, options() + "--precision bf16 --accumulate 2 --steps 4");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* part :
       {"pictures of 12×12 pixels, in training steps 2 sizes from 8×8 to 16×16;", "plans of steps of 3 sizes: "})
    EXPECT_EQ(occurrences(result.output, part), 1) << part << '\n' << result.output;
  const std::string sheet = folder().path("sheet.png");
  EXPECT_EQ(run_train(1, options() + "--show-batch " + sheet).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(sheet));
}

TEST_F(MultiScale, NeedsAModelWhoseParametersDoNotDependOnTheSize) {
  expect_refused(run_train(2, options("lenet")), 2,
                 {"--model lenet cannot be trained on --data", "with steps of different sizes (--multi-scale)",
                  "use --model ", "resnet20, ", "layer 'fc1' depends on the size of the input"});
}

TEST_F(MultiScale, NeedsARangeWithTwoSizesAndPicturesOfTheUser) {
  expect_refused(run_train(2, options("resnet20", "0.9,1.1")), 1, {"--multi-scale 0.9,1.1 with an input of 12×12"});
  expect_refused(run_train(1, "--multi-scale 0.5,1.5"), 2, {"--multi-scale is about the user's own pictures"});
  for (const char* value : {"0.5", "1.5,0.5", "0,1", "0.5,1.5,2", "0.5,99"})
    expect_refused(run_train(1, options("resnet20", value)), 2, {"such as 0.5,1.5"});
}

}  // namespace
}  // namespace lockstep::train
