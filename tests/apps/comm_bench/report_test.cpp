// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace lockstep::comm_bench {
namespace {

constexpr Subject subject{.op = CollectiveKind::all_reduce, .dtype = DType::float64, .ranks = 4};

Measurement measurement(std::int64_t wrong) {
  return {.algorithm = "ring",
          .bytes = {8'000'000},
          .count = {1'000'000},
          .median_seconds = 4e-3,
          .min_seconds = 2e-3,
          .wrong = wrong};
}

TEST(Report, ALineShowsTimesAndBandwidths) {
  const std::string line = table_line(subject, measurement(0));
  for (const char* part : {" 8000000 ", " ring ", " 4000.00 ", " 2000.00 ", " 2.0000 ", " 3.0000 "}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in " << line;
  }
  EXPECT_EQ(line.substr(line.size() - 4), " ok\n");
}

/// Rows are also aligned with their headings.
TEST(Report, LinesFitEightyColumns) {
  Measurement m = measurement(0);
  m.algorithm = "hierarchical-recursive-doubling";
  m.bytes = {std::int64_t{8} << 30};
  m.median_seconds = 0.9999;
  m.min_seconds = 1e-5;
  const std::string head = table_head(subject, "comm-bench 0123456789abcdef0123456789abcdef01234567", 1000);
  const std::string line = table_line(subject, m);
  std::istringstream lines(head + line);
  for (std::string text; std::getline(lines, text);) EXPECT_LE(text.size(), 80U) << text;
  const std::string units = head.substr(head.rfind("#"));
  EXPECT_EQ(units.find("(us)") + 4, line.find("999900.00") + 9) << head << line;
  EXPECT_NE(head.find("\n# all_reduce, float64, 4 ranks on 1000 nodes\n"), std::string::npos) << head;
}

TEST(Report, WrongResultsAreCounted) {
  EXPECT_NE(table_line(subject, measurement(17)).find(" 17 wrong\n"), std::string::npos);
  const Measurement all[] = {measurement(0), measurement(17), measurement(0)};
  EXPECT_EQ(complaint(all), "# 1 of 3 lines have wrong results\n");
  EXPECT_EQ(complaint(std::span(all, 1)), std::nullopt);
}

TEST(Report, JsonHoldsWhatIsDocumented) {
  const Measurement all[] = {measurement(0), measurement(1)};
  const auto results = nlohmann::json::parse(to_json(subject, all)).at("results");
  ASSERT_EQ(results.size(), 2U);
  const nlohmann::json expected = {{"op", "all_reduce"},  {"algorithm", "ring"}, {"bytes", 8'000'000},
                                   {"ranks", 4},          {"dtype", "float64"},  {"device", "cpu"},
                                   {"median_us", 4000.0}, {"min_us", 2000.0},    {"algbw_gbps", 2.0},
                                   {"busbw_gbps", 3.0},   {"correct", true}};
  EXPECT_EQ(results[0], expected);
  EXPECT_EQ(results[1].at("correct"), false);
}

TEST(Report, JsonWithoutResultsIsAnEmptyList) {
  EXPECT_EQ(nlohmann::json::parse(to_json(subject, {})), nlohmann::json::parse(R"({"results":[]})"));
}

Measurement took(const char* algorithm, std::int64_t bytes, double seconds) {
  return {.algorithm = algorithm, .bytes = {bytes}, .count = {bytes / 8}, .median_seconds = seconds};
}

TEST(Report, AutoIsHeldAgainstTheBestSingleAlgorithmAtEverySize) {
  const Measurement all[] = {took("auto", 8, 2.0),  took("ring", 8, 4.0),  took("tree", 8, 2.5),
                             took("mpi", 8, 0.1),   took("auto", 64, 3.0), took("ring", 64, 2.0),
                             took("tree", 64, 6.0), took("auto", 512, 9.0)};
  const auto worst = compare_auto(all);
  ASSERT_TRUE(worst.has_value());
  EXPECT_DOUBLE_EQ(worst->worst_ratio, 1.5);
  EXPECT_EQ(worst->bytes, Bytes{64});
  EXPECT_EQ(worst->best, "ring");
  EXPECT_EQ(summary_line(*worst), "# auto vs best single algorithm: 1.50× slower at worst (64 B)\n");
  const nlohmann::json expected = {{"worst_ratio", 1.5}, {"bytes", 64}, {"best", "ring"}};
  EXPECT_EQ(nlohmann::json::parse(to_json(subject, all)).at("auto"), expected);
}

TEST(Report, AnAutoThatWinsAtEverySizeIsCalledFaster) {
  EXPECT_EQ(summary_line({.worst_ratio = 0.8, .bytes = {64 << 20}, .best = "ring"}),
            "# auto vs best single algorithm: 1.25× faster at worst (64 MiB)\n");
}

TEST(Report, SizesAreShownInTheLargestUnit) {
  EXPECT_EQ(size_text({0}), "0 B");
  EXPECT_EQ(size_text({1000}), "1000 B");
  EXPECT_EQ(size_text({1 << 10}), "1 KiB");
  EXPECT_EQ(size_text({(64 << 20) - 4}), "64 MiB") << "rounded down to whole parts";
  EXPECT_EQ(size_text({std::int64_t{3} << 29}), "1.5 GiB");
}

TEST(Report, WithoutBothSidesThereIsNoComparison) {
  const Measurement only_auto[] = {took("auto", 8, 2.0), took("mpi", 8, 1.0)};
  EXPECT_FALSE(compare_auto(only_auto).has_value());
  const Measurement only_single[] = {took("ring", 8, 2.0)};
  EXPECT_FALSE(compare_auto(only_single).has_value());
}

}  // namespace
}  // namespace lockstep::comm_bench
