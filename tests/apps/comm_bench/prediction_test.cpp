// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/prediction.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "apps/comm-bench/options.hpp"
#include "apps/comm-bench/units.hpp"
#include "apps/comm_bench/command_line.hpp"
#include "collectives/choice/cost.hpp"
#include "support/run_program.hpp"

namespace lockstep::comm_bench {
namespace {

using testing_support::occurrences;

std::vector<const char*> documented(std::initializer_list<const char*> more = {}) {
  std::vector<const char*> arguments = {"--predict", "--nodes", "8192",        "--ranks-per-node", "8",
                                        "--latency", "2us",     "--bandwidth", "400Gbit"};
  arguments.insert(arguments.end(), more);
  return arguments;
}

TEST(Units, DurationsHaveOne) {
  EXPECT_DOUBLE_EQ(parse_duration("300ns"), 300e-9);
  EXPECT_DOUBLE_EQ(parse_duration("2us"), 2e-6);
  EXPECT_DOUBLE_EQ(parse_duration("1.5ms"), 1.5e-3);
  EXPECT_DOUBLE_EQ(parse_duration("3s"), 3);
  for (const char* wrong : {"", "2", "us", "-2us", "0us", "2 us", "2usec", "2US", "1e-6s", "inf s", "nans", "2us "}) {
    EXPECT_THROW(parse_duration(wrong), UsageError) << wrong;
  }
}

TEST(Units, BandwidthsAreOfBitsOrBytes) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("400Gbit"), 50e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("100Mbit/s"), 12.5e6);
  EXPECT_DOUBLE_EQ(parse_bandwidth("12.5GB"), 12.5e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("3TB/s"), 3e12);
  EXPECT_DOUBLE_EQ(parse_bandwidth("800bit"), 100);
  EXPECT_DOUBLE_EQ(parse_bandwidth("5KB"), 5000);
  for (const char* wrong :
       {"", "400", "400G", "400Gb", "400gbit", "GB", "-1GB", "0GB", "1GiB", "1GB/h", "1 GB", "1XB"}) {
    EXPECT_THROW(parse_bandwidth(wrong), UsageError) << wrong;
  }
}

TEST(PredictionOptions, TakeTheDocumentedCommand) {
  const auto question = parse(documented({"--bytes", "100M", "--compute-seconds", "0.2"})).prediction;
  ASSERT_TRUE(question);
  EXPECT_EQ(question->cluster.ranks(), 65536);
  EXPECT_DOUBLE_EQ(question->model.remote.alpha_seconds, 2e-6);
  EXPECT_DOUBLE_EQ(question->model.remote.beta_seconds_per_byte, 1 / 50e9);
  EXPECT_EQ(question->sizes, (std::vector<Bytes>{{100 << 20}}));
  EXPECT_EQ(question->compute_seconds, 0.2);
}

TEST(PredictionOptions, WithoutBytesTakeTheRangeOfSizes) {
  const auto question = parse(documented({"--min", "4", "--max", "64", "--factor", "4"})).prediction;
  ASSERT_TRUE(question);
  EXPECT_EQ(question->sizes, (std::vector<Bytes>{{4}, {16}, {64}}));
}

TEST(PredictionOptions, SayWhatIsMissingOrWrong) {
  expect_complaint({"--predict"}, "--predict needs --nodes");
  expect_complaint({"--predict", "--nodes", "2", "--ranks-per-node", "2", "--latency", "1us"},
                   "--predict needs --bandwidth");
  expect_complaint({"--nodes", "4"}, "--nodes belongs to --predict");
  expect_complaint(documented({"--nodes", "0"}), "'--nodes' cannot be specified more than once");
  expect_complaint(documented({"--op", "broadcast"}), "--predict knows all_reduce only");
  expect_complaint(documented({"--overlap", "1.5"}), "--overlap 1.5: it lies between 0 and 1");
  expect_complaint(documented({"--compute-seconds", "0"}), "--compute-seconds 0: it must be positive");
  expect_complaint(documented({"--local-latency", "1"}), "'1' is not a duration; write a positive number with ns, us");
  expect_complaint(documented({"--add-bandwidth", "10G"}), "'10G' is not a bandwidth");
  expect_complaint({"--predict", "--nodes", "2000000000", "--ranks-per-node", "8"}, "beyond 2^30 ranks");
}

PredictionQuestion question(int nodes, int ranks_per_node) {
  return {.cluster = {nodes, ranks_per_node},
          .model = {.local = {5e-7, 1e-10}, .remote = {2e-6, 2e-11}, .gamma_seconds_per_byte = 1e-10}};
}

TEST(Prediction, BeginsWithTheLeast) {
  for (const std::int64_t bytes : {4, 1 << 20, 100 << 20}) {
    const auto all = predict(question(128, 8), {bytes});
    EXPECT_EQ(all.size(), 8U);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                               [](const Prediction& a, const Prediction& b) { return a.seconds < b.seconds; }));
  }
}

TEST(Prediction, OfOneRankOnEachNodeIsTheFlatFormula) {
  const auto all = predict(question(1024, 1), {1 << 20});
  EXPECT_EQ(all.size(), 4U);
  const auto halving =
      std::find_if(all.begin(), all.end(), [](const auto& p) { return p.algorithm == "halving-doubling"; });
  ASSERT_NE(halving, all.end());
  EXPECT_NEAR(halving->seconds, collectives::halving_doubling_all_reduce_seconds(1024, {1 << 20}, {2e-6, 2e-11, 1e-10}),
              1e-12);
}

/// Eight lanes through one link: what leaves a node takes as long as if one rank sent all of it.
TEST(Prediction, SharesTheLinkOfANode) {
  PredictionQuestion q = question(2, 8);
  q.model = {.local = {0, 0}, .remote = {0, 1}, .gamma_seconds_per_byte = 0};
  for (const Prediction& p : predict(q, {800})) {
    if (p.algorithm != "hierarchical-ring" && p.algorithm != "halving-doubling") continue;
    EXPECT_DOUBLE_EQ(p.seconds, 800) << p.algorithm;
  }
}

TEST(Prediction, EfficiencyCountsWhatIsNotHidden) {
  EXPECT_DOUBLE_EQ(scaling_efficiency(0.2, 0, 0.05), 0.8);
  EXPECT_DOUBLE_EQ(scaling_efficiency(0.2, 0.5, 0.15), 0.8);
  EXPECT_DOUBLE_EQ(scaling_efficiency(0.2, 0.5, 0.1), 1);
}

TEST(Prediction, ForOneSizeShowsAllAlgorithmsAndTheChoice) {
  PredictionQuestion q = question(8192, 8);
  q.sizes = {{100 << 20}};
  const std::string text = prediction_text(q);
  for (const char* name :
       {"  ring ", "  tree ", "  halving-doubling ", "  recursive-doubling ", "  hierarchical-tree "})
    EXPECT_EQ(occurrences(text, name), 1) << text;
  EXPECT_EQ(occurrences(text, " *\n"), 1) << text;
  EXPECT_EQ(occurrences(text, "efficiency"), 0) << text;
  q.compute_seconds = 0.2;
  EXPECT_EQ(occurrences(prediction_text(q), " %\n"), 8);
}

TEST(Prediction, ForSeveralSizesShowsTheChoices) {
  PredictionQuestion q = question(1024, 1);
  q.sizes = {{4}, {100 << 20}};
  const std::string text = prediction_text(q);
  EXPECT_EQ(occurrences(text, " recursive-doubling "), 1) << text;
  EXPECT_EQ(occurrences(text, " halving-doubling "), 1) << text;
  EXPECT_EQ(occurrences(text, " ring "), 0) << text;
}

}  // namespace
}  // namespace lockstep::comm_bench
