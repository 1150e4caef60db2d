// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "apps/comm-bench/options.hpp"
#include "apps/comm_bench/command_line.hpp"
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
  const collectives::Selection& selection = question->selection;
  EXPECT_EQ(selection.shape, (collectives::ShapeSummary{8192, 65536, 8, 8}));
  EXPECT_DOUBLE_EQ(selection.prices.messages.remote.alpha_seconds, 2e-6);
  EXPECT_DOUBLE_EQ(selection.prices.messages.remote.wire_seconds, 1.8e-6);
  EXPECT_DOUBLE_EQ(selection.prices.messages.remote.beta_seconds_per_byte, 1 / 50e9);
  EXPECT_EQ(selection.untuned.segment, collectives::Choice{}.segment);
  EXPECT_EQ(question->sizes, (std::vector<Bytes>{{100 << 20}}));
  EXPECT_EQ(question->compute_seconds, 0.2);
}

TEST(PredictionOptions, TakeWhatAutoWouldHave) {
  const auto question = parse(documented({"--segment", "1M", "--in-flight", "2", "--overhead", "100ns"})).prediction;
  ASSERT_TRUE(question);
  EXPECT_EQ(question->selection.untuned.segment, Bytes{1 << 20});
  EXPECT_EQ(question->selection.untuned.blocks_in_flight, 2);
  EXPECT_DOUBLE_EQ(question->selection.prices.messages.remote.wire_seconds, 1.9e-6);
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
  expect_complaint(documented({"--overhead", "3us"}), "--overhead 3us: it is a part of --latency");
  expect_complaint(documented({"--nodes", "0"}), "--nodes 0: it must be a whole number from 1 to 2147483647");
  expect_complaint(documented({"--nodes", "2"}), "'--nodes' is given more than once");
  expect_complaint(documented({"--op", "broadcast"}), "--predict supports all_reduce only");
  expect_complaint(documented({"--overlap", "1.5"}), "--overlap 1.5: it must be a number of at least 0 and at most 1");
  expect_complaint(documented({"--compute-seconds", "0"}), "--compute-seconds 0: it must be a number above 0");
  expect_complaint(documented({"--local-latency", "1"}), "'1' is not a duration; write a positive number with ns, us");
  expect_complaint(documented({"--add-bandwidth", "10G"}), "'10G' is not a bandwidth");
  expect_complaint({"--predict", "--nodes", "2000000000", "--ranks-per-node", "8"}, "beyond 2^30 ranks");
}

PredictionQuestion question(int nodes, int ranks_per_node) {
  const collectives::LinkCost local{5e-7, 1e-10};
  const collectives::CostModel messages{local, {2e-6, 2e-11, 1.8e-6}, 1e-10};
  return {.selection = {.shape = {nodes, nodes * ranks_per_node, ranks_per_node, ranks_per_node},
                        .prices = {.messages = messages, .shared_memory = {5e-7, 1e-10, 1e-10}}}};
}

/// The printed choice is the one that a program on that cluster would make.
TEST(Prediction, MarksWhatAutoWouldChoose) {
  for (const std::int64_t bytes : {4, 1 << 20, 100 << 20}) {
    PredictionQuestion q = question(128, 8);
    q.sizes = {{bytes}};
    const auto chosen = choose(q.selection, CollectiveKind::all_reduce, {bytes});
    const std::string text = prediction_text(q);
    const std::string marked = text.substr(0, text.find(" *\n"));
    const std::string line = marked.substr(marked.rfind('\n'));
    EXPECT_NE(line.find(' ' + std::string(name(chosen.choice.algorithm)) + ' '), std::string::npos) << line;
    EXPECT_NE(line.find(' ' + radix_text(CollectiveKind::all_reduce, chosen.choice) + ' '), std::string::npos) << line;
  }
}

TEST(Prediction, AddsByCacheOnANodeOfManyRanks) {
  for (const auto& [ranks, algorithm] :
       {std::pair{"16", "shared-memory"}, std::pair{"128", "hierarchical-tree-order"}}) {
    const auto of_a_node = parse({"--predict", "--nodes", "1", "--ranks-per-node", ranks, "--latency", "2us",
                                  "--bandwidth", "400Gbit", "--max", "64K"})
                               .prediction;
    ASSERT_TRUE(of_a_node);
    for (const Bytes size : of_a_node->sizes)
      EXPECT_EQ(name(choose(of_a_node->selection, CollectiveKind::all_reduce, size).choice.algorithm), algorithm)
          << ranks << " ranks, " << size.value << " bytes";
  }
}

TEST(Prediction, EfficiencyCountsWhatIsNotHidden) {
  EXPECT_DOUBLE_EQ(scaling_efficiency(0.2, 0, 0.05), 0.8);
  EXPECT_DOUBLE_EQ(scaling_efficiency(0.2, 0.5, 0.15), 0.8);
  EXPECT_DOUBLE_EQ(scaling_efficiency(0.2, 0.5, 0.1), 1);
}

TEST(Prediction, ForOneSizeShowsAllCandidatesAndTheChoice) {
  PredictionQuestion q = question(8192, 8);
  q.sizes = {{100 << 20}};
  const std::string text = prediction_text(q);
  for (const char* name : {"  ring ", "  tree ", "  hierarchical-ring ", "  hierarchical-tree "})
    EXPECT_EQ(occurrences(text, name), 1) << text;
  for (const char* name : {"  halving-doubling ", "  recursive-doubling ", "  hierarchical-halving-doubling ",
                           "  hierarchical-recursive-doubling "})
    EXPECT_EQ(occurrences(text, name), 5) << "radix 2, 4, 8, 16, 32\n" << text;
  EXPECT_EQ(occurrences(text, " *\n"), 1) << text;
  EXPECT_EQ(occurrences(text, "efficiency"), 0) << text;
  q.compute_seconds = 0.2;
  EXPECT_EQ(occurrences(prediction_text(q), " %\n"), 24);
}

TEST(Prediction, LinesFitEightyColumns) {
  PredictionQuestion q = question(8192, 8);
  q.sizes = {{100 << 20}};
  q.compute_seconds = 0.2;
  q.overlap = 0.333333333;
  std::istringstream lines(prediction_text(q));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
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
