// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"

namespace lockstep::train {
namespace {

struct Event {
  std::string track;
  std::string name;
  double begin_us = 0;
  double end_us = 0;
  std::string algorithm;

  [[nodiscard]] bool is_bucket() const {
    return track == "communication" && name.starts_with("bucket ") && name != "bucket plan";  // plans are compared
  }
};

/// Returns the spans of each rank in the order in which they were recorded.
std::map<int, std::vector<Event>> read_trace(const std::filesystem::path& path) {
  const auto trace = nlohmann::json::parse(data::read_all(path));
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<int, std::vector<Event>> ranks;
  for (const auto& event : trace.at("traceEvents")) {
    const int rank = event.at("pid").get<int>();
    const std::pair<int, int> track(rank, event.at("tid").get<int>());
    if (event.at("name") == "thread_name") tracks[track] = event.at("args").at("name").get<std::string>();
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts").get<double>();
    ranks[rank].push_back({.track = tracks.at(track),
                           .name = event.at("name").get<std::string>(),
                           .begin_us = begin,
                           .end_us = begin + event.at("dur").get<double>(),
                           .algorithm = event.value("/args/algorithm"_json_pointer, "")});
  }
  return ranks;
}

struct Step {
  double backward_begin_us = 0;
  double backward_end_us = 0;
};

/// A step's backward pass lasts from the first span "backward …" after a forward to the last one before the next
/// forward.
std::vector<Step> steps_of(const std::vector<Event>& events) {
  std::vector<Step> steps;
  bool open = false;
  for (const Event& event : events) {
    if (event.track != "compute") continue;
    if (event.name.starts_with("forward ")) open = false;
    if (!event.name.starts_with("backward ")) continue;
    if (!open) steps.push_back({event.begin_us, 0});
    open = true;
    steps.back().backward_end_us = event.end_us;
  }
  return steps;
}

bool has_bucket_within(const std::vector<Event>& events, const Step& step) {
  return std::any_of(events.begin(), events.end(), [&step](const Event& event) {
    return event.is_bucket() && event.begin_us > step.backward_begin_us && event.end_us < step.backward_end_us;
  });
}

// Without overlap no bucket completes before backward ends. With it most do, but their number depends on whether the
// two ranks have the processors at the same time. So one step of twenty suffices as proof, which makes the test robust.
TEST(Overlap, ABucketIsReducedWhileBackwardGoesOn) {
  const data::TemporaryDirectory directory;
  const auto path = directory.path() / "trace.json";
  const auto result = run_train(2, "--steps 20 --threads 1 --bucket-mb 0.25 --trace " + path.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "trace: " + path.string()), 1) << result.output;
  const auto ranks = read_trace(path);
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& [rank, events] : ranks) {
    const std::vector<Step> steps = steps_of(events);
    EXPECT_EQ(steps.size(), 20U);
    EXPECT_GE(std::count_if(steps.begin(), steps.end(),
                            [&all = events](const Step& step) { return has_bucket_within(all, step); }),
              1)
        << "rank " << rank;
  }
}

TEST(Trace, HasOneBucketThatBeginsWhenBackwardEnds) {
  const data::TemporaryDirectory directory;
  const auto path = directory.path() / "trace.json";
  const auto result = run_train(2, "--steps 3 --threads 1 --bucket-mb all --trace " + path.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const auto& [rank, events] : read_trace(path)) {
    std::vector<double> begins;
    for (const Event& event : events)
      if (event.is_bucket()) begins.push_back(event.begin_us);
    const std::vector<Step> steps = steps_of(events);
    ASSERT_EQ(begins.size(), steps.size()) << "rank " << rank;
    for (std::size_t step = 0; step < steps.size(); ++step)
      EXPECT_GE(begins[step], steps[step].backward_end_us) << "step " << step << " on rank " << rank;
  }
}

/// Returns the algorithms that reduced the buckets of a short run on two ranks of one node.
std::set<std::string> algorithms_of_buckets(const std::string& arguments) {
  const data::TemporaryDirectory directory;
  const auto path = directory.path() / "trace.json";
  const auto result = run_train(2, "--steps 3 --threads 1 --bucket-mb 0.05 --trace " + path.string() + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  std::set<std::string> algorithms;
  std::set<std::string> buckets;
  for (const auto& [rank, events] : read_trace(path)) {
    for (const Event& event : events) {
      if (!event.is_bucket()) continue;
      buckets.insert(event.name);
      algorithms.insert(event.algorithm);
    }
  }
  EXPECT_GT(buckets.size(), 2U) << "large ones and small ones";
  return algorithms;
}

TEST(Trace, SaysByWhichAlgorithmABucketWasReduced) {
  using Names = std::set<std::string>;
  EXPECT_EQ(algorithms_of_buckets(" --algorithm auto"), Names{"shared-memory"}) << "the ranks of one node";
  EXPECT_EQ(algorithms_of_buckets(" --algorithm ring"), Names{"ring"});
  EXPECT_EQ(algorithms_of_buckets(" --algorithm mpi"), Names{"mpi"});
}

}  // namespace
}  // namespace lockstep::train
