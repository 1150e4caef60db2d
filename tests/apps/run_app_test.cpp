// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

ProgramResult probe(const std::string& manner) {
  return run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_PROBE + ' ' + manner + " 2>&1");
}

ProgramResult probe_alone(const std::string& environment, const std::string& manner) {
  return run_program("env " + environment + ' ' + LOCKSTEP_PROBE + ' ' + manner + " 2>&1");
}

TEST(RunApp, ReturnsTheBodysCode) {
  EXPECT_EQ(probe("").exit_code, 0);
  EXPECT_EQ(probe("seven").exit_code, 7);
}

TEST(RunApp, UsageErrorsAreReportedOnceAndReturnTwo) {
  const auto result = probe("usage");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(occurrences(result.output, "probe: no such option"), 1) << result.output;
}

TEST(RunApp, AgreedErrorsAreReportedOnceAndNameTheRankAtFault) {
  const auto result = probe("agreed");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(occurrences(result.output, "probe: rank 1 on "), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, ": io: disk full\n"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "MPI_ABORT"), 0) << result.output;
}

TEST(RunApp, AnErrorOfOneRankEndsThePeersThatWait) {
  const auto result = probe("alone");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(occurrences(result.output, "probe: rank 1 on "), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, ": io: disk full\n"), 1) << result.output;
}

TEST(RunApp, ExceptionsOfOtherLibrariesAreReportedToo) {
  const auto result = probe("foreign");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(occurrences(result.output, ": not one of ours\n"), 1) << result.output;
}

TEST(RunApp, ProcessesThatCannotSeeEachOtherAreTold) {
  for (const char* variable : {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"}) {
    const auto result = probe_alone(std::string(variable) + "=2", "");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(occurrences(result.output, std::string(variable) + "=2"), 1) << result.output;
    EXPECT_EQ(occurrences(result.output, "rank 0 of 1"), 1) << result.output;
  }
  EXPECT_EQ(probe_alone("SLURM_JOB_ID=1 SLURM_NTASKS=2", "").exit_code, 0);
}

TEST(RunApp, KnowsWhetherItShowsOnATerminal) {
  const auto on_terminal = [](const std::string& command) {  // script(1) runs a command on a terminal of its own
    return run_program("script -qec '" + command + "' /dev/null").output;
  };
  const std::string job = std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_PROBE + " terminal";
  const std::string alone = std::string(LOCKSTEP_PROBE) + " terminal";
  // Only Open MPI gives rank 0 a terminal where it has one itself.
  EXPECT_EQ(on_terminal(job), is_open_mpi(LOCKSTEP_MPIEXEC) ? "terminal\r\n" : "no terminal\r\n");
  EXPECT_EQ(on_terminal(alone), "terminal\r\n");
  EXPECT_EQ(on_terminal(job + " | cat"), "no terminal\r\n");
  EXPECT_EQ(on_terminal(alone + " | cat"), "no terminal\r\n");
}

/// The last line of a text, and how often a program "probe" has written one.
void expect_last_and_once(const ProgramResult& result, const std::string& part) {
  const std::string text = result.output.substr(0, result.output.find_last_not_of('\n') + 1);
  const std::string last = text.substr(text.rfind('\n') + 1);
  EXPECT_TRUE(last.starts_with("apps_probe: ")) << result.output;
  EXPECT_NE(last.find(part), std::string::npos) << result.output;
  EXPECT_EQ(occurrences(result.output, "probe: "), 1) << result.output;
}

TEST(Launch, TheCauseOfTheEndIsTheLastLine) {
  const std::string launch = std::string(LOCKSTEP_LAUNCH) + ' ' + LOCKSTEP_MPIEXEC + " -np 2 " + LOCKSTEP_PROBE;
  for (const std::string manner : {"alone", "agreed", "usage"}) {
    const auto result = run_program(launch + ' ' + manner + " 2>&1");
    EXPECT_EQ(result.exit_code, manner == "usage" ? 2 : 1) << result.output;
    expect_last_and_once(result, manner == "usage" ? "no such option" : ": io: disk full");
    // Of an abort mpirun does not always say something.
    if (!is_open_mpi(LOCKSTEP_MPIEXEC) || manner == "alone") continue;
    EXPECT_GT(occurrences(result.output, "-----"), 0) << "mpirun's boxes are kept";
  }
}

TEST(Launch, LeavesAllElseAsItIs) {
  const auto launch = [](const std::string& command) { return run_program(std::string(LOCKSTEP_LAUNCH) + command); };
  EXPECT_EQ(launch(" sh -c 'echo out; exit 7'").output, "out\n");
  EXPECT_EQ(launch(" sh -c 'exit 7'").exit_code, 7);
  EXPECT_EQ(launch(" sh -c 'kill -9 $$'").exit_code, 128 + 9);
  EXPECT_EQ(launch(" printf 'no newline' 2>&1").output, "no newline");
  EXPECT_EQ(launch(" env sh -c 'echo first >&2; echo sh: error >&2; echo last >&2; printf end >&2' 2>&1").output,
            "first\nlast\nend\nsh: error\n");
  EXPECT_EQ(launch(" /nowhere/mpirun 2>&1").exit_code, 127);
}

TEST(Launch, PassesSignalsOn) {
  const auto result = run_program("timeout --preserve-status -s TERM 1 " + std::string(LOCKSTEP_LAUNCH) +
                                  R"( bash -c 'trap "echo caught; exit 5" TERM; while :; do sleep 0.1; done')");
  EXPECT_EQ(result.output, "caught\n");
  EXPECT_EQ(result.exit_code, 5);
}

TEST(RunApp, AWorldDestroyedOpenSaysSo) {
  EXPECT_EQ(occurrences(probe_alone("", "forgetful").output, "the World (rank 0 of 1) was destroyed without close()"),
            1);
}

}  // namespace
}  // namespace lockstep::testing_support
