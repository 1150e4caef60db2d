// SPDX-License-Identifier: Apache-2.0
#include "observe/metrics_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.hpp"
#include "observe/scratch_file.hpp"
#include "support/verdict.hpp"

namespace lockstep::observe {
namespace {

using nlohmann::json;

template <class Event>
json written(const Event& event) {
  const ScratchFile scratch;
  MetricsFile(scratch.path()).write(event);
  EXPECT_EQ(scratch.lines().size(), 1U);
  json line = json::parse(scratch.text());
  EXPECT_GT(line.at("time").get<double>(), 1.5e9) << "seconds since 1970";
  line.erase("time");
  return line;
}

TEST(MetricsFile, WritesTheStart) {
  const json line = written(StartEvent{.version = "0.1.0",
                                       .model = "lenet",
                                       .dataset = "mnist",
                                       .algorithm = "ring",
                                       .compress = "bf16",
                                       .device = "cpu",
                                       .ops = "onednn",
                                       .precision = "bf16",
                                       .emulation = "in float32: just so",
                                       .seed = std::numeric_limits<std::uint64_t>::max(),
                                       .epochs = 3,
                                       .batch = {128},
                                       .hosts = {"a", "b"}});
  EXPECT_EQ(line, json::parse(R"({"event":"start","version":"0.1.0","model":"lenet","dataset":"mnist","ranks":2,
    "hosts":["a","b"],"batch":128,"epochs":3,"seed":18446744073709551615,"algorithm":"ring","compress":"bf16","device":"cpu",
    "ops":"onednn","precision":"bf16","emulated":"in float32: just so"
})"));
}

TEST(MetricsFile, WritesByWhichChoicesKernelsAreMadeWhereThereAreAny) {
  EXPECT_FALSE(written(StartEvent{}).contains("kernel_choices"));
  EXPECT_EQ(written(StartEvent{.kernel_choices = "00c0ffee"})["kernel_choices"], "00c0ffee");
}

TEST(MetricsFile, WritesAStep) {
  EXPECT_EQ(written(StepEvent{.epoch = 1,
                              .step = 50,
                              .loss = 0.25,
                              .learning_rate = 0.125,
                              .images_per_second = 1000.5,
                              .seconds = 4,
                              .data_wait_seconds = 1,
                              .exposed_communication_seconds = 0.5}),
            json::parse(R"({"event":"step","epoch":1,"step":50,"loss":0.25,"learning_rate":0.125,
              "images_per_second":1000.5,"data_wait_seconds":1.0,"compute_seconds":2.5,
              "exposed_communication_seconds":0.5})"));
}

TEST(MetricsFile, WritesAnEvaluation) {
  EXPECT_EQ(written(ResultEvent{.metrics = {{"loss", 0.25}, {"accuracy", 0.5}}, .samples = 100, .seconds = 2}),
            json::parse(R"({"event":"evaluation","val_loss":0.25,"val_accuracy":0.5,"samples":100,"seconds":2.0})"));
}

TEST(MetricsFile, WritesTheCountsOfClasses) {
  const ClassCounts counts{
      .names = {"cat", "dog"}, .labels = {4, 0}, .predictions = {3, 1}, .hits = {3, 0}, .confusion = {3, 1, 0, 0}};
  json line = json::parse(R"({"event":"classes","step":7,"classes":[
    {"name":"cat","samples":4,"recall":0.75,"precision":1.0,"f1":0.8571428571428571},
    {"name":"dog","samples":0,"recall":null,"precision":0.0,"f1":0.0}],"confusion":[[3,1],[0,0]]})");
  EXPECT_EQ(written(ClassesEvent{.step = 7, .counts = counts}), line);
  ClassCounts boxes = counts;
  boxes.images = {2, 0};
  boxes.values = {{.name = "AP50", .values = {0.5, {}}}};
  json with_boxes = line;
  with_boxes["classes"][0].update({{"images", 2}, {"AP50", 0.5}});
  with_boxes["classes"][1].update({{"images", 0}, {"AP50", nullptr}});
  EXPECT_EQ(written(ClassesEvent{.step = 7, .counts = boxes}), with_boxes);
  ClassCounts many = counts;
  many.confusion.clear();
  line["confusion"] = json::array();
  EXPECT_EQ(written(ClassesEvent{.step = 7, .counts = many}), line) << "there are too many for a matrix";
}

TEST(MetricsFile, WritesSlowRanksWithinAnEpoch) {
  EXPECT_EQ(written(StragglerEvent{.epoch = 1, .step = 50, .steps = 20, .ranks = {}}),
            json::parse(R"({"event":"stragglers","epoch":1,"step":50,"steps":20,"slow_ranks":[]})"));
}

TEST(MetricsFile, WritesShardsThatMove) {
  EXPECT_EQ(written(BalanceEvent{.epoch = 1, .step = 10, .shards = {11, 5}}),
            json::parse(R"({"event":"balance","epoch":1,"step":10,"shards":[11,5]})"));
  EXPECT_EQ(written(EpochEvent{.shards = {11, 5}}).at("shards"), json::parse("[11,5]"));
  EXPECT_FALSE(written(EpochEvent{}).contains("shards"));
}

TEST(MetricsFile, WritesAnEpoch) {
  EXPECT_EQ(written(EpochEvent{.epoch = 2,
                               .train_loss = 0.5,
                               .metrics = {{"loss", 0.25}, {"accuracy", 0.9871}},
                               .seconds = 12.5,
                               .images_per_second = 4800,
                               .exposed_communication_seconds = 0.75,
                               .data_wait_seconds = 0.125,
                               .evaluation_seconds = 1.5,
                               .slow_ranks = {{.rank = 3,
                                               .host = "node1",
                                               .cause = "data",
                                               .seconds = 0.5,
                                               .usual_seconds = 0.25,
                                               .data_seconds = 0.5,
                                               .compute_seconds = 1.25,
                                               .wait_seconds = 2,
                                               .is_straggler = true}}}),
            json::parse(R"({"event":"epoch","epoch":2,"train_loss":0.5,"val_loss":0.25,"val_accuracy":0.9871,
              "seconds":12.5,"images_per_second":4800.0,"exposed_communication_seconds":0.75,
              "data_wait_seconds":0.125,"compute_seconds":11.625,"evaluation_seconds":1.5,"slow_ranks":[{"rank":3,"host":"node1",
              "cause":"data","seconds":0.5,"usual_seconds":0.25,"data_seconds":0.5,"compute_seconds":1.25,
              "wait_seconds":2.0,"is_straggler":true}]})"));
}

TEST(MetricsFile, AnEpochThatWasNotEvaluatedHasNoAccuracy) {
  const json event = written(EpochEvent{.epoch = 1, .metrics = {{"loss", {}}, {"accuracy", {}}}});
  EXPECT_TRUE(event.at("val_loss").is_null());
  EXPECT_TRUE(event.at("val_accuracy").is_null());
}

TEST(MetricsFile, WritesTheEnd) {
  EXPECT_EQ(written(EndEvent{.outcome = "completed",
                             .epochs = 3,
                             .steps = 90,
                             .steps_of_start = 30,
                             .seconds = 40,
                             .best = {{"accuracy", 0.75}},
                             .last = {{"accuracy", {}}},
                             .evaluated_step = 60}),
            json::parse(R"({"event":"end","outcome":"completed","signal":null,"error":null,"epochs":3,"steps":90,
              "steps_of_start":30,"seconds":40.0,"best_accuracy":0.75,
              "final_accuracy":null,"evaluated_step":60,"skipped_updates":0,"optimizer_bytes":0,"weights_sha256":""})"));
}

TEST(MetricsFile, SaysWhyARunFailed) {
  const json line = written(EndEvent{.outcome = "failed", .error = "disk"});
  EXPECT_EQ(line["error"], "disk");
  EXPECT_TRUE(line["evaluated_step"].is_null()) << "never";
}

TEST(MetricsFile, NamesTheSignalThatStoppedTheRun) {
  EXPECT_EQ(written(EndEvent{.outcome = "stopped", .signal = "SIGTERM"})["signal"], "SIGTERM");
}

TEST(MetricsFile, AppendsToWhatIsThere) {
  const ScratchFile scratch;
  for (int run = 1; run <= 2; ++run) {
    MetricsFile file(scratch.path());
    file.write(StepEvent{.epoch = run, .step = 1});
    EXPECT_EQ(scratch.lines().size(), static_cast<std::size_t>(2 * run - 1));  // before the file is closed
    file.write(StepEvent{.epoch = run, .step = 2});
  }
  ASSERT_EQ(scratch.lines().size(), 4U);
  EXPECT_EQ(json::parse(scratch.lines()[2])["epoch"], 2);
}

TEST(MetricsFile, TellsWhichEventsItHasOfTheLastStart) {
  const ScratchFile scratch;
  EXPECT_FALSE(has_event(scratch.path(), "step", 0));
  {
    MetricsFile file(scratch.path());
    file.write(StartEvent{});
    file.write(StepEvent{.epoch = 1, .step = 8});
    file.write(StartEvent{});
    file.write(StepEvent{.epoch = 2, .step = 7});
    file.write(EpochEvent{.epoch = 2, .step = 7});
    file.write(RecoveryEvent{.number = 3, .step = 7});
  }
  std::ofstream(scratch.path(), std::ios::app) << R"({"event":"step","step":9)";
  EXPECT_TRUE(has_event(scratch.path(), "step", 7));
  EXPECT_TRUE(has_event(scratch.path(), "epoch", 2));
  EXPECT_FALSE(has_event(scratch.path(), "epoch", 1));
  EXPECT_TRUE(has_event(scratch.path(), "recovery", 3));
  EXPECT_FALSE(has_event(scratch.path(), "recovery", 7)) << "that is the step";
  EXPECT_FALSE(has_event(scratch.path(), "step", 8)) << "it is of an earlier start";
  EXPECT_FALSE(has_event(scratch.path(), "step", 9)) << "its line is cut off";
}

TEST(MetricsFile, ALossThatIsNotFiniteIsNull) {
  EXPECT_TRUE(written(StepEvent{.loss = std::numeric_limits<double>::quiet_NaN()})["loss"].is_null());
}

TEST(MetricsFile, AHostNameThatIsNotUtf8DoesNoHarm) {
  EXPECT_EQ(written(StartEvent{.hosts = {"h\xff"}})["hosts"][0], "h\uFFFD");
}

TEST(MetricsFile, UnwritablePathIsKnownAtOnce) {
  try {
    const MetricsFile file("/no/such/folder/metrics.jsonl");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(error.message(), "cannot write /no/such/folder/metrics.jsonl: No such file or directory");
  }
}

TEST(MetricsFile, BeginsOnALineOfItsOwn) {
  const ScratchFile scratch;
  std::ofstream(scratch.path()) << "{\"event\":\"st";  // as after a full disk
  MetricsFile(scratch.path()).write(StepEvent{});
  EXPECT_EQ(scratch.text().find("{\"event\":\"st\n{\"event\":\"step\""), 0U) << scratch.text();
}

TEST(MetricsFile, FullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) LOCKSTEP_SKIP(device) << "/dev/full does not exist here";
  MetricsFile file("/dev/full");
  try {
    file.write(StepEvent{});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(error.message(), "cannot write /dev/full: No space left on device");
  }
}

}  // namespace
}  // namespace lockstep::observe
