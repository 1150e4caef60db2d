#include "apps/comm-bench/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  for (const char* part :
       {" 8000000 ", " 1000000 ", " float64 ", " ring ", " 4000.00 ", " 2000.00 ", " 2.000 ", " 3.000 "}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in " << line;
  }
  EXPECT_EQ(line.substr(line.size() - 4), " ok\n");
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
  const nlohmann::json expected = {
      {"op", "all_reduce"},  {"algorithm", "ring"}, {"bytes", 8'000'000}, {"ranks", 4},        {"dtype", "float64"},
      {"median_us", 4000.0}, {"min_us", 2000.0},    {"algbw_gbps", 2.0},  {"busbw_gbps", 3.0}, {"correct", true}};
  EXPECT_EQ(results[0], expected);
  EXPECT_EQ(results[1].at("correct"), false);
}

TEST(Report, JsonWithoutResultsIsAnEmptyList) {
  EXPECT_EQ(nlohmann::json::parse(to_json(subject, {})), nlohmann::json::parse(R"({"results":[]})"));
}

}  // namespace
}  // namespace lockstep::comm_bench
