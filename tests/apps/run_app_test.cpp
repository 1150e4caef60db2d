// SPDX-License-Identifier: Apache-2.0
// Tests lockstep::run, and what happens in a program without it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "lockstep/mpi/world.hpp"
#include "state/scratch_folder.hpp"
#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

ProgramResult probe(const std::string& manner, int ranks = 2, const std::string& redirection = "2>&1") {
  return run_program(std::string(LOCKSTEP_MPIEXEC) + " -np " + std::to_string(ranks) + ' ' + LOCKSTEP_PROBE + ' ' +
                     manner + ' ' + redirection);
}

ProgramResult probe_alone(const std::string& environment, const std::string& manner,
                          const std::string& redirection = "2>&1") {
  return run_program("env " + environment + ' ' + LOCKSTEP_PROBE + ' ' + manner + ' ' + redirection);
}

void expect_silent_success(const ProgramResult& result, const std::string& what) {
  EXPECT_EQ(result.exit_code, 0) << what;
  EXPECT_EQ(result.output, "") << what;
}

TEST(Run, ReturnsTheBodysCode) {
  expect_silent_success(probe(""), "a body that returns void");
  EXPECT_EQ(probe("seven").exit_code, 7);
}

TEST(Run, ClosesWhatTheBodyLeavesOpen) {
  for (int ranks : {1, 2, 3}) expect_silent_success(probe("open", ranks), std::to_string(ranks) + " ranks");
  expect_silent_success(probe_alone("", "open"), "without mpirun");
  expect_silent_success(probe("outside"), "a group that outlives the body");
}

TEST(Run, ThreadsWorkAtTheSameTimeWithAGroupEach) { expect_silent_success(probe("threads"), "two threads"); }

TEST(Run, MayBeDoneWithoutAtTheNormalEndOfMain) {
  for (int ranks : {1, 2, 3}) expect_silent_success(probe("plain", ranks), std::to_string(ranks) + " ranks");
  expect_silent_success(probe("mpi"), "destructors after MPI_Finalize");
}

/// A child closes nothing of its parent, sends nothing in its name, and ends, though it has none of its threads.
TEST(Run, AChildOfForkCannotUseTheHandlesOfItsParent) {
  for (int ranks : {1, 2}) {
    const auto result = probe("fork", ranks);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::string expected;
    const int calls = ranks == 1 ? 6 : 7;  // one rank alone waits for nothing
    for (int call = 0; call < calls; ++call) expected += "refused\n";
    EXPECT_EQ(result.output, expected) << ranks << " ranks";
  }
}

TEST(Run, UsageErrorsAreReportedOnceAndReturnTwo) {
  const auto result = probe("usage");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(occurrences(result.output, "apps_probe: no such option\n"), 1) << result.output;
}

TEST(Run, AgreedErrorsAreReportedOnceAndNameTheRankAtFault) {
  const auto result = probe("agreed");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(occurrences(result.output, "apps_probe: rank 1 on "), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, ": io: disk full\n"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "MPI_ABORT"), 0) << result.output;
}

/// The first rank that has the error destroys its group, while the others may still wait for the values that show it.
TEST(Run, AnErrorThatAllRanksFindInAStepIsReportedOnceWhicheverFindsItFirst) {
  for (int round = 0; round < 4; ++round) {
    const auto result = probe("forgotten", 4);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(occurrences(result.output, "left out the gradient of 'weight'"), 1) << result.output;
    EXPECT_EQ(occurrences(result.output, "MPI_ABORT"), 0) << result.output;
  }
}

TEST(Run, AnErrorOfOneRankIsReportedOnceAndEndsThePeersThatHearOfItInGoodOrder) {
  const auto result = probe("alone", 3);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(occurrences(result.output, "apps_probe: rank "), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "apps_probe: rank 1 on "), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, ": io: disk full\n"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "MPI_ABORT"), 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "unfinished"), 3) << "output is flushed\n" << result.output;
}

TEST(Run, AbortsPeersThatCannotHearOfAnError) {
  const auto result = probe("deaf", 3);
  if (is_open_mpi(LOCKSTEP_MPIEXEC)) {
    EXPECT_EQ(result.exit_code, 1);
  } else {
    EXPECT_NE(result.exit_code, 0) << "MPICH's mpiexec returns 9, the signal by which it ends the other ranks";
  }
  EXPECT_EQ(occurrences(result.output, "apps_probe: rank "), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, ": io: disk full\n"), 1) << result.output;
}

TEST(Run, ExceptionsOfOtherLibrariesAreReportedToo) {
  const auto foreign = probe("foreign");
  EXPECT_EQ(foreign.exit_code, 1);
  EXPECT_EQ(occurrences(foreign.output, "apps_probe: rank 1 on "), 1) << foreign.output;
  EXPECT_EQ(occurrences(foreign.output, ": not one of ours\n"), 1) << foreign.output;
  const auto number = probe("number");
  EXPECT_EQ(number.exit_code, 1);
  EXPECT_EQ(occurrences(number.output, ": an exception was thrown that is no std::exception\n"), 1) << number.output;
}

TEST(Run, AnOperationThatIsUnderWayAtTheEndIsAnError) {
  for (const char* manner : {"pending", "pending_inside"}) {  // in a group that outlives the body, or ends within it
    const auto result = probe(manner);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(occurrences(result.output, "apps_probe: rank 0 on "), 1) << result.output;
    // Rank 0 detects it by itself, or is first notified that rank 1 has closed.
    EXPECT_EQ(
        occurrences(result.output, "while an operation is under way: wait for its Work first") +
            occurrences(result.output, "rank 1 closed the communicator after 0 operations; this rank has submitted 1"),
        1)
        << result.output;
  }
}

TEST(Run, PrintsTheNoticesOfGroups) {
  const auto result = probe("dropped");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output,
            "apps_probe: the Work of barrier on rank 0 was destroyed before it was waited for; its buffers stay in "
            "use: call wait() first\n");
}

TEST(Run, OutputThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(probe_alone("", "print").output, "printed\n");
  const auto result = probe_alone("", "print", "2>&1 >/dev/full");
  EXPECT_EQ(result.exit_code, 1);
  // MPICH flushes line by line, so that the write fails before, and nobody keeps the reason.
  const std::string reason = is_open_mpi(LOCKSTEP_MPIEXEC) ? "No space left on device" : "an earlier write has failed";
  EXPECT_EQ(occurrences(result.output, "cannot write all of standard output: " + reason + '\n'), 1) << result.output;
}

TEST(Run, ClosedStandardStreamsAreOpenedOnTheNullDevice) {
  EXPECT_EQ(probe_alone("", "streams", "0<&- 1>&- 2>&-").exit_code, 0);
  EXPECT_EQ(probe_alone("", "streams", "0</dev/null 1>/dev/null 2>&-").exit_code, 0);
  EXPECT_EQ(probe_alone("", "print", "2>&1 0<&-").output, "printed\n") << "streams that are open stay as they are";
}

TEST(Run, ProcessesThatCannotSeeEachOtherAreTold) {
  for (const char* variable : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const auto result = probe_alone(std::string(variable) + "=2", "");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(occurrences(result.output, std::string(variable) + "=2"), 1) << result.output;
    EXPECT_EQ(occurrences(result.output, "rank 0 of 1"), 1) << result.output;
  }
  const std::string torchrun = "TORCHELASTIC_RUN_ID=none WORLD_SIZE=2 RANK=";
  const auto first = probe_alone(torchrun + "0", "");
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_EQ(occurrences(first.output, "`mpirun -np 2 " LOCKSTEP_PROBE " …`"), 1) << first.output;
  EXPECT_EQ(probe_alone(torchrun + "1", "").output, "") << "only one process says it";
  EXPECT_EQ(probe_alone("SLURM_JOB_ID=1 SLURM_NTASKS=2", "").exit_code, 0);
}

TEST(Run, ProcessesThatSrunDoesNotConnectAreToldOnceBeforeMpiStarts) {
  const auto task = [](const std::string& number, const std::string& more) {
    return probe_alone("SLURM_STEP_NUM_TASKS=2 SLURMD_NODENAME=node7 SLURM_PROCID=" + number + ' ' + more, "");
  };
  const auto first = task("0", "");
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_EQ(first.output.find("apps_probe: rank 0 on node7: mismatch: srun started 2 processes "
                              "(SLURM_STEP_NUM_TASKS=2) without a PMI plugin"),
            0U)
      << first.output;
  EXPECT_EQ(occurrences(first.output, "srun --mpi=pmix"), 1) << first.output;
  const auto second = task("1", "");
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.output, "");
  if (!is_open_mpi(LOCKSTEP_MPIEXEC)) return;  // other libraries support PMI-1 and PMI-2
  const auto by_pmi2 = task("0", "PMI_RANK=0 PMI_SIZE=2");
  EXPECT_EQ(occurrences(by_pmi2.output, "a PMI plugin that this MPI library cannot use"), 1) << by_pmi2.output;
}

// mpirun of Open MPI 4.1.4 would hang if the other rank were in MPI_Finalize.
TEST(Run, ARankThatFailsWhileTheOtherClosesEndsTheJob) {
  const auto result =
      run_program("timeout 30 " + std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_PROBE + " late 2>&1");
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_EQ(occurrences(result.output, ": io: disk full\n"), 1) << result.output;
}

TEST(Run, ARankThatNeverClosesIsNamed) {
  const auto result =
      run_program("timeout 30 " + std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_PROBE + " never 2>&1");
  EXPECT_EQ(result.exit_code, 4) << result.output;
  EXPECT_EQ(occurrences(result.output, "has not joined in closing the World within 2 s"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "timeout: rank 1 on "), 1) << result.output;
}

TEST(Run, KnowsWhetherItShowsOnATerminal) {
  const auto on_terminal = [](const std::string& command) {  // script(1) runs a command on a terminal of its own
    return run_program("script -qec '" + command + "' /dev/null").output;
  };
  const std::string job = std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + LOCKSTEP_PROBE + " terminal";
  const std::string alone = std::string(LOCKSTEP_PROBE) + " terminal";
  // Only Open MPI gives rank 0 a terminal if mpirun itself has one.
  EXPECT_EQ(on_terminal(job), is_open_mpi(LOCKSTEP_MPIEXEC) ? "terminal\r\n" : "no terminal\r\n");
  EXPECT_EQ(on_terminal(alone), "terminal\r\n");
  EXPECT_EQ(on_terminal(job + " | cat"), "no terminal\r\n");
  EXPECT_EQ(on_terminal(alone + " | cat"), "no terminal\r\n");
}

TEST(World, SaysWhatToCallWhereItsDestructorCannotCloseIt) {
  const auto result = probe("pending_plain");
  // A destructor cannot change the exit code; only Open MPI's mpirun notices that MPI was not finalized.
  if (is_open_mpi(LOCKSTEP_MPIEXEC)) {
    EXPECT_NE(result.exit_code, 0);
  }
  EXPECT_GE(occurrences(result.output, "could not be closed as it was destroyed"), 1) << result.output;
  EXPECT_GE(occurrences(result.output, "call World::close() before, or let lockstep::run make the World"), 1)
      << result.output;
}

/// Checks the last line of a text, and that the program "probe" has printed exactly one.
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
    const auto result = run_program(launch + ' ' + manner + " 2>&1 >/dev/null");  // standard output is not delayed
    EXPECT_EQ(result.exit_code, manner == "usage" ? 2 : 1) << result.output;
    expect_last_and_once(result, manner == "usage" ? "no such option" : ": io: disk full");
    // mpirun does not always report an abort.
    if (!is_open_mpi(LOCKSTEP_MPIEXEC) || manner == "alone") continue;
    EXPECT_GT(occurrences(result.output, "-----"), 0) << "mpirun's boxes are kept";
  }
}

/// A shell that launch.sh takes for a launcher, so that it runs the command as it is.
class Launcher {
 public:
  Launcher() { std::filesystem::create_symlink("/bin/bash", mpirun_); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() { std::filesystem::remove(mpirun_); }
  /// Returns launch.sh's command line for a script, whose messages begin with "sh: ".
  [[nodiscard]] std::string command(const std::string& script) const {
    return std::string(LOCKSTEP_LAUNCH) + " " + mpirun_.string() + " -c '" + script + "' sh";
  }

 private:
  std::filesystem::path mpirun_ =
      std::filesystem::temp_directory_path() / ("mpirun.lockstep-" + std::to_string(getpid()));
};

TEST(Launch, LeavesAllElseAsItIs) {
  const Launcher launcher;
  const auto launch = [&](const std::string& script) { return run_program(launcher.command(script) + " 2>&1"); };
  EXPECT_EQ(launch("echo out; exit 7").output, "out\n");
  EXPECT_EQ(launch("exit 7").exit_code, 7);
  EXPECT_EQ(launch("kill -9 $$").exit_code, 128 + 9);
  EXPECT_EQ(launch("printf \"no newline\"").output, "no newline");
  EXPECT_EQ(launch("echo first >&2; echo sh: error >&2; echo last >&2; printf end >&2").output,
            "first\nlast\nend\nsh: error\n");
  EXPECT_EQ(run_program(std::string(LOCKSTEP_LAUNCH) + " /nowhere/mpirun 2>&1").exit_code, 127);
}

TEST(Launch, PassesSignalsOn) {
  const Launcher launcher;
  const state::ScratchFolder folder;
  for (const std::string signal : {"TERM", "USR2"}) {
    const std::string ready = (folder / signal).string();
    const auto result =
        run_program(launcher.command("trap \"echo caught; exit 5\" " + signal + "; : > " + ready +
                                     "; while :; do sleep 0.1; done") +
                    " & until [ -e " + ready + " ]; do sleep 0.1; done; kill -" + signal + " $!; wait $!");
    EXPECT_EQ(result.output, "caught\n") << signal;
    EXPECT_EQ(result.exit_code, 5) << signal;
  }
}

}  // namespace
}  // namespace lockstep::testing_support
