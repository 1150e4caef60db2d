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
  for (const char* variable : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const auto result = probe_alone(std::string(variable) + "=2", "");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(occurrences(result.output, std::string(variable) + "=2"), 1) << result.output;
    EXPECT_EQ(occurrences(result.output, "rank 0 of 1"), 1) << result.output;
  }
  EXPECT_EQ(probe_alone("SLURM_JOB_ID=1 SLURM_NTASKS=2", "").exit_code, 0);
}

TEST(RunApp, ProcessesThatSrunDoesNotConnectAreToldOnceBeforeMpiStarts) {
  const auto task = [](const std::string& number, const std::string& more) {
    return probe_alone("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=" + number + ' ' + more, "");
  };
  const auto first = task("0", "");
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_EQ(
      first.output.find("probe: mismatch: srun started 2 processes (SLURM_STEP_NUM_TASKS=2) without a PMI plugin"), 0U)
      << first.output;
  EXPECT_EQ(occurrences(first.output, "srun --mpi=pmix"), 1) << first.output;
  const auto second = task("1", "");
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.output, "");
  if (!is_open_mpi(LOCKSTEP_MPIEXEC)) return;  // other libraries understand PMI-1 and PMI-2
  const auto by_pmi2 = task("0", "PMI_RANK=0 PMI_SIZE=2");
  EXPECT_EQ(occurrences(by_pmi2.output, "a PMI plugin that this MPI library cannot use"), 1) << by_pmi2.output;
}

// mpirun of Open MPI 4.1.4 would never end if the other rank were in MPI_Finalize.
TEST(RunApp, ARankThatFailsWhileTheOtherClosesEndsTheJob) {
  const auto result =
      run_program("timeout 30 " + std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_PROBE + " late 2>&1");
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_EQ(occurrences(result.output, ": io: disk full\n"), 1) << result.output;
}

TEST(RunApp, ARankThatNeverClosesIsNamed) {
  const auto result =
      run_program("timeout 30 " + std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_PROBE + " never 2>&1");
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "has not joined in closing the World within 2 s"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "timeout: rank 1 on "), 1) << result.output;
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

TEST(RunApp, AWorldDestroyedOpenSaysSo) {
  EXPECT_EQ(occurrences(probe_alone("", "forgetful").output, "the World (rank 0 of 1) was destroyed without close()"),
            1);
}

}  // namespace
}  // namespace lockstep::testing_support
