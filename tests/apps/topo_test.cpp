// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

ProgramResult topo(const std::string& arguments) {
  return run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 3 " + LOCKSTEP_TOPO + ' ' + arguments + " 2>&1");
}

TEST(Topo, PrintsEachRankOnce) {
  const auto result = topo("");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output.find("3 ranks on 1 node\n"), 0U) << result.output;
  for (const char* rank : {"\n       0      0 ", "\n       1      1 ", "\n       2      2 "}) {
    EXPECT_EQ(occurrences(result.output, rank), 1) << result.output;
  }
}

TEST(Topo, JsonHoldsOneHostWithThreeProcesses) {
  const auto result = topo("--json");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto cluster = nlohmann::json::parse(result.output);
  EXPECT_EQ(cluster.at("ranks"), 3);
  ASSERT_EQ(cluster.at("hosts").size(), 1U);
  std::set<int> pids;
  std::set<int> ranks;
  for (const auto& process : cluster.at("hosts")[0].at("processes")) {
    pids.insert(process.at("pid").get<int>());
    ranks.insert(process.at("rank").get<int>());
    EXPECT_EQ(process.at("rank"), process.at("local_rank"));
    EXPECT_FALSE(process.at("cores").get<std::string>().empty());
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(pids.size(), 3U);
}

TEST(Topo, RunsWithoutALauncher) {
  const auto result = run_program(LOCKSTEP_TOPO);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.find("1 rank on 1 node\n"), 0U) << result.output;
}

TEST(Topo, VersionNamesTheCommitAndEveryLibrary) {
  const auto result = topo("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(occurrences(result.output, "commit "), 1) << result.output;
  for (const char* library : {"\nMPI ", "\nhwloc ", "\nBoost ", "\noneDNN ", "\nzlib ", "\nCUDA "}) {
    const auto at = result.output.find(library);
    ASSERT_NE(at, std::string::npos) << library << result.output;
    EXPECT_NE(result.output[at + std::string(library).size()], '\n') << library << result.output;
  }
}

TEST(Topo, HelpNamesTheOptionsAndExitCodes) {
  const auto result = topo("--help");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(occurrences(result.output, "--json"), 2) << result.output;
  EXPECT_EQ(occurrences(result.output, "Exit codes"), 1) << result.output;
}

TEST(Topo, RefusesAnUnknownOptionAndAWord) {
  const auto misspelt = topo("--jsn");
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_EQ(occurrences(misspelt.output, "'--jsn'"), 1) << misspelt.output;
  EXPECT_EQ(occurrences(misspelt.output, "did you mean '--json'?"), 1) << misspelt.output;
  const auto word = topo("json");
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_EQ(occurrences(word.output, "'json' belongs to no option"), 1) << word.output;
}

}  // namespace
}  // namespace lockstep::testing_support
