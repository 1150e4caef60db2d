// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/run/class_table.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::train {
namespace {

std::set<std::string> fields(const nlohmann::json& event) {
  std::set<std::string> names;
  for (const auto& item : event.items()) names.insert(item.key());
  return names;
}

std::vector<nlohmann::json> of_kind(const std::vector<nlohmann::json>& events, const std::string& kind) {
  std::vector<nlohmann::json> found;
  for (const auto& event : events) {
    if (event.at("event") == kind) found.push_back(event);
  }
  return found;
}

/// Trains two epochs of six steps, with a report every second step.
class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    run();
    events_ = read_metrics(digits_.file("metrics.json"));
  }
  void run() const {
    const auto result = run_train(2, digits_.arguments() + " --batch 16 --epochs 2 --log-every 2 --seed 5 --metrics " +
                                         digits_.path("metrics.json"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "metrics: " + digits_.path("metrics.json")), 1) << result.output;
  }

  SmallDigits digits_;
  std::vector<nlohmann::json> events_;
};

TEST_F(Metrics, HoldTheEventsInTheirOrder) {
  std::string order;
  for (const auto& event : events_) order += event.at("event").get<std::string>() + ' ';
  EXPECT_EQ(order, "start step step step epoch step step step epoch end ");
  const auto now = static_cast<double>(std::time(nullptr));
  double last = now - 600;
  for (const auto& event : events_) {
    EXPECT_GE(event.at("time").get<double>(), last) << event;
    last = event.at("time");
  }
  EXPECT_LE(last, now + 1);
}

TEST_F(Metrics, StartSaysWhatIsRun) {
  const auto& start = events_.front();
  EXPECT_EQ(start.at("model"), "lenet");
  EXPECT_EQ(start.at("dataset"), "mnist");
  EXPECT_EQ(start.at("algorithm"), "auto");
  EXPECT_EQ(start.at("compress"), "none");
  EXPECT_EQ(start.at("device"), "cpu");
  EXPECT_EQ(start.at("ops"), "onednn");
  EXPECT_EQ(start.at("precision"), "float32");
  EXPECT_TRUE(start.at("emulated").is_null());
  EXPECT_EQ(start.at("seed"), 5);
  EXPECT_EQ(start.at("epochs"), 2);
  EXPECT_EQ(start.at("batch"), 16);
  EXPECT_EQ(start.at("hosts").size(), 2U);
  EXPECT_FALSE(start.at("version").get<std::string>().empty());
}

TEST_F(Metrics, StepsCountOnOverEpochs) {
  const auto steps = of_kind(events_, "step");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(fields(steps[i]),
              (std::set<std::string>{"event", "epoch", "step", "loss", "learning_rate", "images_per_second",
                                     "data_wait_seconds", "compute_seconds", "exposed_communication_seconds", "time"}));
    EXPECT_EQ(steps[i].at("epoch"), 1 + i / 3);
    EXPECT_EQ(steps[i].at("step"), 2 + 2 * i);
    EXPECT_GT(steps[i].at("loss").get<double>(), 0);
    EXPECT_GT(steps[i].at("images_per_second").get<double>(), 0);
  }
}

TEST_F(Metrics, EpochsHoldLossesAccuracyAndSpeed) {
  const auto epochs = of_kind(events_, "epoch");
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    EXPECT_EQ(epochs[i].at("epoch"), i + 1);
    for (const char* field : {"train_loss", "val_loss", "seconds", "images_per_second"}) {
      EXPECT_GT(epochs[i].at(field).get<double>(), 0) << field;
    }
    const double accuracy = epochs[i].at("val_accuracy").get<double>();
    EXPECT_GE(accuracy, 0);
    EXPECT_LE(accuracy, 1);
    EXPECT_NEAR(epochs[i].at("images_per_second").get<double>() * epochs[i].at("seconds").get<double>(),
                SmallDigits::train_size, 1e-6)
        << "over all ranks";
  }
}

/// The speed in a step's event is that of all ranks, so the time of its steps fits into the epoch's.
TEST_F(Metrics, StepsTakeNoLongerThanTheirEpoch) {
  const auto steps = of_kind(events_, "step");
  for (const auto& epoch : of_kind(events_, "epoch")) {
    double seconds = 0;
    for (const auto& step : steps)
      if (step.at("epoch") == epoch.at("epoch")) seconds += 2 * 16 / step.at("images_per_second").get<double>();
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, epoch.at("seconds").get<double>() * (1 + 1e-9));
  }
}

TEST_F(Metrics, EndRepeatsTheLastAccuracy) {
  const auto& end = events_.back();
  EXPECT_EQ(end.at("outcome"), "completed");
  EXPECT_EQ(end.at("epochs"), 2);
  EXPECT_EQ(end.at("final_accuracy"), of_kind(events_, "epoch").back().at("val_accuracy"));
  EXPECT_GE(end.at("best_accuracy").get<double>(), end.at("final_accuracy").get<double>());
  EXPECT_EQ(end.at("evaluated_step"), 12);
  EXPECT_EQ(end.at("steps"), 12);
  EXPECT_EQ(end.at("steps_of_start"), 12);
  EXPECT_TRUE(end.at("error").is_null());
}

/// Each image once, whatever its rank; kernels compute the same images together on any number of ranks.
TEST(EvaluationMetrics, AreTheSameToTheLastBitOnAnyNumberOfRanks) {
  const SmallDigits digits;
  digits.write_images("t10k", 75);
  digits.write_labels("t10k", 75);
  const std::string run = digits.path("run");
  const std::string arguments = digits.arguments() + " --batch 48 --epochs 1 --save-dir " + run;
  ASSERT_EQ(run_train(1, arguments).exit_code, 0);
  std::vector<nlohmann::json> first;
  for (const int ranks : {1, 2, 3}) {
    const std::string file = "metrics-" + std::to_string(ranks);
    const auto result = run_train(
        ranks, "--resume " + run + " --eval-only --per-class --metrics " + digits.path(file) + " --save-dir " + run);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "\nmacro average"), 1) << result.output;
    std::vector<nlohmann::json> events = read_metrics(digits.file(file));
    ASSERT_EQ(events.size(), 4U) << "start, evaluation, classes, end";
    EXPECT_EQ(fields(events[1]), (std::set<std::string>{"event", "val_loss", "val_accuracy", "val_top5_accuracy",
                                                        "val_macro_f1", "samples", "seconds", "time"}));
    EXPECT_EQ(events[1].at("samples"), 75);
    EXPECT_EQ(events[1].at("val_loss"), events[3].at("final_loss"));
    for (nlohmann::json& event : events) event.erase("time");
    events[1].erase("seconds");
    if (first.empty()) first = events;
    EXPECT_EQ(events[1], first[1]) << ranks << " ranks";
    EXPECT_EQ(events[2], first[2]) << ranks << " ranks";
  }
}

TEST(ClassTable, HasALineForEachClassAndTheConfusionMatrix) {
  const observe::ClassCounts counts{
      .names = {"cat", "dog"}, .labels = {4, 0}, .predictions = {3, 1}, .hits = {3, 0}, .confusion = {3, 1, 0, 0}};
  const std::string table =
      "class             samples     recall  precision         F1\n"
      "cat                     4    75.00 %   100.00 %    85.71 %\n"
      "dog                     0          -     0.00 %     0.00 %\n"
      "macro average           4    75.00 %    50.00 %    42.86 %\n";
  EXPECT_EQ(class_table(counts, 80), table +
                                         "\n"
                                         "taken for class     0  1\n"
                                         "cat              0  3  1\n"
                                         "dog              1  0  0\n");
  EXPECT_EQ(class_table(counts, 20), table + "\ntaken for another\n  class most often:\n  cat for dog 1\n");
  observe::ClassCounts many = counts;
  many.confusion.clear();
  EXPECT_EQ(class_table(many, 80), table);
}

TEST(ClassTable, NamesClassesThatDoNotOccur) {
  observe::ClassCounts counts{
      .names = {"cat", "dog", "cow", "emu"}, .labels = {4, 0, 0, 0}, .predictions = {3, 1, 0, 0}, .hits = {3, 0, 0, 0}};
  EXPECT_EQ(absent_classes(counts, 200), "averages leave out these classes, which no test sample has: cow, emu\n");
  counts.values = {{.name = "AP", .values = {0.5, {}, {}, 0}}};  // that of "dog" does not count, that of "emu" does
  EXPECT_EQ(absent_classes(counts, 200), "averages leave out these classes, which no test sample has: dog, cow\n");
  counts.values.clear();
  counts.labels = counts.predictions = {1, 1, 1, 1};
  EXPECT_EQ(absent_classes(counts, 200), "");
  for (std::vector<std::int64_t>* numbers : {&counts.labels, &counts.predictions, &counts.hits}) numbers->assign(30, 0);
  counts.names.clear();
  EXPECT_NE(absent_classes(counts, 400).find(": 0, 1, 2, "), std::string::npos);
  EXPECT_NE(absent_classes(counts, 400).find(", 19 and 10 more\n"), std::string::npos);
}

TEST(ClassTable, HasImagesAndAveragePrecisionForBoxes) {
  const observe::ClassCounts counts{
      .names = {"cell", "dog"},
      .labels = {40, 0},
      .predictions = {30, 0},
      .hits = {20, 0},
      .confusion = {},
      .images = {12, 0},
      .values = {{.name = "AP50", .values = {0.5, {}}}, {.name = "AP", .values = {0.25, {}}}}};
  EXPECT_EQ(class_table(counts, 80),
            "class              images     boxes     recall  precision         F1       AP50         AP\n"
            "cell                   12        40    50.00 %    66.67 %    57.14 %    50.00 %    25.00 %\n"
            "dog                     0         0          -          -          -          -          -\n"
            "macro average                    40    50.00 %    66.67 %    57.14 %    50.00 %    25.00 %\n");
}

TEST(PerClass, NeedsAModelThatGivesAClassToAnImage) {
  expect_refused(run_train(1, "--model detector --dataset synthetic-boxes --per-class"), exit_usage,
                 {"--per-class: --model detector gives no class to an image"});
}

/// Returns the names of the event files in a folder.
std::set<std::string> event_files(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) names.insert(entry.path());
  return names;
}

TEST(EventFiles, AreInTheFolderOfTheRunOneForEachStart) {
  const SmallDigits digits;
  const std::string folder = digits.path("run");
  const std::string arguments = digits.arguments() + " --batch 16 --log-every 2 --save-dir " + folder;
  ASSERT_EQ(run_train(2, arguments + " --epochs 1 --tensorboard").exit_code, 0);
  ASSERT_EQ(event_files(folder).size(), 1U);
  std::ifstream file(*event_files(folder).begin());
  const std::string events{std::istreambuf_iterator<char>(file), {}};
  for (const auto& [tag, times] : {std::pair{"train/loss", 3}, {"step_seconds/data", 3}, {"val/accuracy", 1}})
    EXPECT_EQ(occurrences(events, tag), times) << tag;
  ASSERT_EQ(run_train(2, "--epochs 2 --resume --save-dir " + folder).exit_code, 0);
  EXPECT_EQ(event_files(folder).size(), 2U) << "the run goes on with its options";
  ASSERT_EQ(run_train(1, digits.arguments() + " --batch 16 --epochs 1 --tensorboard " + digits.path("a/b")).exit_code,
            0);
  EXPECT_EQ(event_files(digits.file("a/b")).size(), 1U);
}

TEST(EventFiles, ThatCannotBeWrittenAreKnownBeforeTraining) {
  const SmallDigits digits;
  const auto result = run_train(2, digits.arguments() + " --steps 1 --tensorboard /proc/none");
  expect_refused(result, 1, {"cannot write /proc/none: "});
  EXPECT_EQ(occurrences(result.output, "images/s"), 0) << result.output;
}

/// A run that goes on without evaluating its last weights has no result of them.
TEST(ResumedMetrics, ResultsOfOtherWeightsAreNotThoseOfTheLast) {
  const SmallDigits digits;
  const std::string folder = digits.path("run");
  const std::string arguments = digits.arguments() + " --batch 16 --save-dir " + folder;
  EXPECT_EQ(run_train(2, arguments + " --epochs 2").exit_code, 0);
  const auto resumed = run_train(2, arguments + " --epochs 3 --eval-interval never --resume");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  const auto end = read_metrics(digits.file("run/metrics.jsonl")).back();
  EXPECT_EQ(end.at("steps"), 18);
  EXPECT_EQ(end.at("steps_of_start"), 6);
  EXPECT_EQ(end.at("evaluated_step"), 12);
  EXPECT_TRUE(end.at("final_accuracy").is_null()) << end;
  EXPECT_FALSE(end.at("best_accuracy").is_null()) << end;
  for (const char* part : {"\n6 steps in ", ", after 12 steps before; ",
                           "\ntest accuracy after step 12: ", "\nthe last weights were not evaluated\n"})
    EXPECT_EQ(occurrences(resumed.output, part), 1) << part << resumed.output;
  EXPECT_EQ(occurrences(resumed.output, "\ntest accuracy "), 1) << resumed.output;
  const auto again = run_train(1, arguments + " --resume");
  EXPECT_EQ(occurrences(again.output, "\ntest accuracy after step 12: "), 1) << "no step is left\n" << again.output;
}

/// The first update makes every weight too large for float32.
TEST(FailedMetrics, SayHowFarTheRunCameAndWhyItFailed) {
  const SmallDigits digits;
  const std::string path = digits.path("failed.jsonl");
  const auto result = run_train(2, digits.arguments() + " --batch 16 --lr 1e38 --weight-decay 1e38 --metrics " + path);
  EXPECT_EQ(result.exit_code, 1) << result.output;
  const auto end = read_metrics(path).back();
  EXPECT_EQ(end.at("event"), "end");
  EXPECT_EQ(end.at("outcome"), "failed");
  EXPECT_EQ(end.at("steps"), 1);
  EXPECT_EQ(end.at("steps_of_start"), 1);
  EXPECT_EQ(end.at("epochs"), 0);
  EXPECT_NE(end.at("error").get<std::string>().find("gradients are not finite"), std::string::npos) << end;
}

TEST_F(Metrics, OfASecondRunAreAppended) {
  run();
  const auto both = read_metrics(digits_.file("metrics.json"));
  ASSERT_EQ(both.size(), 2 * events_.size());
  auto first = both.front();
  EXPECT_GT(first.at("time"), 0);
  first["time"] = events_.front().at("time");
  EXPECT_EQ(first, events_.front());
  EXPECT_EQ(both.at(events_.size()).at("event"), "start");
}

TEST(FullDisk, ForMetricsDoesNotEndTraining) {
  const SmallDigits digits;
  const auto result = run_train(2, digits.arguments() + " --batch 48 --epochs 2 --log-every 1 --metrics /dev/full");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "train: cannot write /dev/full: No space left on device; training goes on"), 1)
      << result.output;
  EXPECT_EQ(occurrences(result.output, "metrics: /dev/full (incomplete)"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "weights sha256 "), 1) << result.output;
}

TEST(FullDisk, ForATraceIsKnownBeforeTraining) {
  const SmallDigits digits;
  const auto result = run_train(2, digits.arguments() + " --steps 1 --trace /dev/full");
  expect_refused(result, 1, {"cannot write /dev/full: No space left on device"});
  EXPECT_EQ(occurrences(result.output, "images/s"), 0) << result.output;
}

TEST(FullDisk, UnderStandardOutputIsAnErrorAtTheEnd) {
  const SmallDigits digits;
  const auto result = testing_support::run_program(std::string(LOCKSTEP_TRAIN) + digits.arguments() +
                                                   " --steps 1 --batch 8 2>&1 >/dev/full");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(occurrences(result.output, ": cannot write all of standard output: "), 1) << result.output;
}

}  // namespace
}  // namespace lockstep::train
