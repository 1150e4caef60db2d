// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "platform/gpu/gpu.hpp"
#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

ProgramResult comm_bench(int ranks, const std::string& arguments) {
  return run_program(std::string(LOCKSTEP_MPIEXEC) + " -np " + std::to_string(ranks) + ' ' + LOCKSTEP_COMM_BENCH + ' ' +
                     arguments + " 2>&1");
}

class CommBench : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] nlohmann::json results(int ranks, const std::string& arguments) const {
    const auto run = comm_bench(ranks, arguments + " --seconds 0.001 --json " + file("out.json"));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    std::ifstream json(file("out.json"));
    return nlohmann::json::parse(json).at("results");
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lockstep-comm-bench-" + std::to_string(getpid()));
};

/// Checks that a result is consistent; `factor` is bus ÷ algorithm bandwidth.
void expect_sound(const nlohmann::json& r, const std::string& op, int ranks, double factor) {
  EXPECT_EQ(r.at("op"), op);
  EXPECT_EQ(r.at("ranks"), ranks);
  EXPECT_EQ(r.at("correct"), true);
  const auto median = r.at("median_us").get<double>();
  const auto algorithm = r.at("algbw_gbps").get<double>();
  EXPECT_GT(r.at("min_us").get<double>(), 0);
  EXPECT_GE(median, r.at("min_us").get<double>());
  EXPECT_NEAR(algorithm, r.at("bytes").get<double>() / median / 1000, 1e-9 + algorithm * 1e-9);
  EXPECT_NEAR(r.at("busbw_gbps").get<double>(), algorithm * factor, 1e-9 + algorithm * 1e-9);
}

TEST_F(CommBench, RanksWithOtherOptionsAreRefusedAndNamed) {
  const auto run = [](const std::string& most, const std::string& odd) {
    const std::string program = std::string(LOCKSTEP_COMM_BENCH) + " --seconds 0.001 --comm-timeout 20 ";
    return run_program("timeout -s KILL 60 " + std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + program + most +
                       " : -np 1 " + program + odd + " 2>&1");
  };
  const auto other_max = run("--max 4K", "--max 1K");
  EXPECT_EQ(other_max.exit_code, 1);
  EXPECT_EQ(occurrences(other_max.output, "has --max 1K, the other 2 have 4K"), 1) << other_max.output;
  const auto other_op = run("--max 4K", "--max 4K --op broadcast");
  EXPECT_EQ(other_op.exit_code, 1);
  EXPECT_EQ(occurrences(other_op.output, "has --op broadcast, the other 2 have all_reduce"), 1) << other_op.output;
  const auto mistake = run("--max 4K", "--max 4K --opp broadcast");
  EXPECT_EQ(mistake.exit_code, 2);
  EXPECT_EQ(occurrences(mistake.output, "rank 2 on "), 1) << mistake.output;
  EXPECT_EQ(occurrences(mistake.output, ": there is no option '--opp'"), 1) << mistake.output;
  EXPECT_EQ(run("--max 4K --json " + file("a.json"), "--max 4K --wait yield").exit_code, 0);
}

TEST_F(CommBench, MeasuresEveryAlgorithmAtEverySize) {
  const std::set<std::string> algorithms = {"auto",       "ring", "tree", "halving-doubling", "recursive-doubling",
                                            "tree-order", "mpi"};
  for (const int ranks : {1, 2, 3}) {
    std::set<std::pair<std::string, int>> seen;
    for (const auto& r : results(ranks,
                                 "--op all_reduce --min 4 --max 4K --factor 32 --algorithm "
                                 "auto,ring,tree,halving-doubling,recursive-doubling,tree-order,mpi")) {
      expect_sound(r, "all_reduce", ranks, 2.0 * (ranks - 1) / ranks);
      EXPECT_EQ(r.at("dtype"), "float32");
      seen.emplace(r.at("algorithm"), r.at("bytes"));
    }
    std::set<std::pair<std::string, int>> expected;
    for (const auto& algorithm : algorithms) {
      for (const int bytes : {4, 128, 4096}) expected.emplace(algorithm, bytes);
    }
    EXPECT_EQ(seen, expected) << ranks << " ranks";
  }
}

TEST_F(CommBench, MeasuresTheOtherOperations) {
  const std::pair<std::string, double> operations[] = {
      {"broadcast", 1}, {"all_gather", 2.0 / 3}, {"reduce_scatter", 2.0 / 3},
      {"reduce", 1},    {"all_to_all", 2.0 / 3}, {"barrier", 0}};
  for (const auto& [op, factor] : operations) {
    const auto all = results(3, "--max 300K --min 300K --dtype uint8 --op " + op);
    EXPECT_EQ(all.size(), 5U) << op;
    for (const auto& r : all) {
      expect_sound(r, op, 3, factor);
      EXPECT_EQ(r.at("bytes"), op == "barrier" ? 0 : 300 * 1024);
    }
  }
}

TEST_F(CommBench, MeasuresEveryDtype) {
  for (const std::string dtype : {"float64", "int32", "int64", "float16", "bfloat16"}) {
    for (const char* op : {"all_reduce", "reduce_scatter"}) {
      for (const auto& r : results(3, "--min 30K --max 30K --op " + std::string(op) + " --dtype " + dtype)) {
        EXPECT_EQ(r.at("dtype"), dtype);
        EXPECT_EQ(r.at("correct"), true) << dtype << ' ' << r.at("algorithm");
      }
    }
  }
}

TEST_F(CommBench, PrintsALineForEachResultOnce) {
  const auto run = comm_bench(2, "--min 64 --max 64 --repetitions 5 --algorithm ring,mpi");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(occurrences(run.output, "2 ranks on 1 node"), 1) << run.output;
  EXPECT_EQ(occurrences(run.output, " ring "), 1) << run.output;
  EXPECT_EQ(occurrences(run.output, " mpi "), 1) << run.output;
  EXPECT_EQ(occurrences(run.output, "  ok\n"), 2) << run.output;
}

TEST_F(CommBench, RunsWithoutALauncher) {
  const auto run = run_program(std::string(LOCKSTEP_COMM_BENCH) + " --max 4 --repetitions 5 2>&1");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(occurrences(run.output, "  ok\n"), 9) << run.output;
}

TEST_F(CommBench, GoesByTheTableThatItHasTuned) {
  const std::string sizes = " --min 1K --max 1M --factor 32";
  const auto tuned = comm_bench(2, "--tune " + file("table.json") + sizes + " --repetitions 2 --warmup 1");
  EXPECT_EQ(tuned.exit_code, 0) << tuned.output;
  EXPECT_EQ(occurrences(tuned.output, "# written to " + file("table.json")), 1) << tuned.output;
  const auto merged = comm_bench(3, "--tune " + file("table.json") + " --op barrier --repetitions 2 --warmup 1");
  EXPECT_EQ(merged.exit_code, 0) << merged.output;

  const std::string with_table = " --tuning " + file("table.json") + sizes;
  const auto explained = comm_bench(2, "--explain" + with_table);
  EXPECT_EQ(explained.exit_code, 0) << explained.output;
  EXPECT_EQ(occurrences(in_one_line(explained.output), "table " + file("table.json") + ", entry from "), 3)
      << explained.output;
  const auto elsewhere = comm_bench(3, "--explain" + with_table);
  EXPECT_EQ(occurrences(in_one_line(elsewhere.output), "cost model: no entry of " + file("table.json")), 3)
      << elsewhere.output;
  const auto other = comm_bench(3, "--explain --op barrier --tuning " + file("table.json"));
  EXPECT_EQ(occurrences(in_one_line(other.output), "table " + file("table.json") + ", entry from 0 "), 1)
      << other.output;

  const auto run = comm_bench(2, with_table + " --algorithm auto,ring,tree --repetitions 5");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(occurrences(run.output, "# auto vs best single algorithm: "), 1) << run.output;
}

TEST_F(CommBench, ExplainsWhatIsForced) {
  const auto run = comm_bench(2, "--explain --algorithm tree,mpi --min 4 --max 4 --segment 3K --in-flight 7");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(occurrences(run.output, "           4  tree          -        3072      7 "), 1) << run.output;
  EXPECT_EQ(occurrences(run.output, "  forced\n"), 1) << run.output;
  EXPECT_EQ(comm_bench(1, "--explain --algorithm mpi").exit_code, 2);
}

TEST_F(CommBench, ATableThatIsNoneIsReportedOnceBeforeAnythingIsMeasured) {
  std::ofstream(file("table.json")) << "{}";
  for (const std::string flag : {"--tune ", "--tuning "}) {
    const auto run = comm_bench(2, flag + file("table.json"));
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_EQ(occurrences(run.output, file("table.json") + ": the key 'format' is missing"), 1) << run.output;
    EXPECT_EQ(occurrences(run.output, "(us)"), 0) << run.output;
  }
  const auto nowhere = comm_bench(2, "--tune " + file("missing/table.json"));
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_EQ(occurrences(nowhere.output, "cannot write '" + file("missing/table.json")), 1) << nowhere.output;
}

TEST_F(CommBench, PredictsWithoutALauncher) {
  const auto run = run_program(std::string(LOCKSTEP_COMM_BENCH) +
                               " --predict --nodes 8192 --ranks-per-node 8 --latency 2us --bandwidth 400Gbit"
                               " --bytes 100M --compute-seconds 0.2 2>&1");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(occurrences(run.output, " * "), 2) << run.output;
  EXPECT_EQ(occurrences(run.output, "efficiency"), 2) << run.output;
}

TEST_F(CommBench, AMistakeOnTheCommandLineIsReportedOnce) {
  const auto run = comm_bench(2, "--algorithm rign");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(occurrences(run.output, "did you mean 'ring'?"), 1) << run.output;
}

TEST_F(CommBench, AFileThatCannotBeWrittenIsKnownBeforeAnythingIsMeasured) {
  const auto run = comm_bench(2, "--json " + file("missing/out.json"));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(occurrences(run.output, "cannot write '" + file("missing/out.json") + "': No such file or directory"), 1)
      << run.output;
  EXPECT_EQ(occurrences(run.output, "algbw"), 0) << run.output;
}

TEST_F(CommBench, SizesBeyondTheMemoryAreRefused) {
  const auto run = comm_bench(2, "--min 4000000G --max 4000000G");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(occurrences(run.output, "choose a smaller --max"), 1) << run.output;
}

TEST_F(CommBench, MeasuresOnAGpuOrSaysWhatIsMissingForIt) {
  const auto run = comm_bench(1, "--device cuda --min 4 --max 1M --factor 64 --seconds 0.01");
  if (gpu_count() > 0) {
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_EQ(occurrences(run.output, "  ok\n"), 4) << run.output;
    return;
  }
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_EQ(occurrences(run.output, "no group on GPUs: " + why_no_gpu()), 1) << run.output;
  const auto on_two = comm_bench(2, "--device cuda --algorithm tree-order");
  EXPECT_EQ(on_two.exit_code, 1) << on_two.output;
  EXPECT_EQ(occurrences(on_two.output, "no group on GPUs: " + why_no_gpu()), 1) << on_two.output;
}

TEST_F(CommBench, HelpAndVersionPrintOnce) {
  const auto help = comm_bench(2, "--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(occurrences(help.output, "Exit codes"), 1) << help.output;
  const auto version = comm_bench(2, "--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(occurrences(version.output, "commit "), 1) << version.output;
}

}  // namespace
}  // namespace lockstep::testing_support
