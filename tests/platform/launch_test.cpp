// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/launch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

namespace lockstep {
namespace {

bool mentions(const std::optional<std::string>& text, std::string_view part) {
  return text && text->find(part) != std::string::npos;
}

TEST(LaunchMistake, NothingSpeaksOfOtherProcesses) {
  EXPECT_FALSE(launch_mistake({}, 1));
  EXPECT_FALSE(launch_mistake({{"PATH", "/bin"}, {"PMIX_RANK", "0"}}, 1));
}

TEST(LaunchMistake, EachLauncherIsBelieved) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const auto mistake = launch_mistake({{variable, "4"}}, 1);
    EXPECT_TRUE(mentions(mistake, std::string(variable) + "=4")) << variable;
    EXPECT_TRUE(mentions(mistake, "srun --mpi=pmix")) << variable;
    EXPECT_TRUE(mentions(mistake, "srun --mpi=list")) << variable;
    EXPECT_TRUE(mentions(mistake, "mpirun")) << variable;
    EXPECT_FALSE(launch_mistake({{variable, "1"}}, 1)) << variable;
    EXPECT_FALSE(launch_mistake({{variable, "4"}}, 4)) << variable;
    EXPECT_FALSE(launch_mistake({{variable, "many"}}, 1)) << variable;
  }
}

TEST(LaunchMistake, MoreRanksThanMpiHasAreRefusedOnSeveralRanksToo) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    EXPECT_TRUE(mentions(launch_mistake({{variable, "4"}}, 2), "one of 2 ranks")) << variable;
    EXPECT_FALSE(launch_mistake({{variable, "2"}}, 4)) << variable << ": such as a component of a heterogeneous job";
  }
  EXPECT_TRUE(launch_mistake({{"PMIX_RANK", "3"}}, 2));
  EXPECT_FALSE(launch_mistake({{"PMIX_RANK", "1"}}, 2));
  // One MPI's mpirun has started another's.
  EXPECT_FALSE(launch_mistake({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMI_SIZE", "2"}}, 2));
}

TEST(LaunchMistake, TorchrunConnectsNoRanksOfMpi) {
  const Environment two = {{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "2"}, {"RANK", "1"}};
  const auto mistake = launch_mistake(two, 1);
  EXPECT_TRUE(mentions(mistake, "torchrun started several processes (WORLD_SIZE=2)"));
  EXPECT_TRUE(mentions(mistake, "`mpirun -np 2 " + std::string(program_invocation_name) + " …`"));
  EXPECT_FALSE(first_process(two));
  Environment hosts = two;
  hosts.insert({"LOCAL_WORLD_SIZE", "1"});
  EXPECT_TRUE(mentions(launch_mistake(hosts, 1), "`mpirun -np 2 -H HOST1:1,HOST2:1,… "));
  // `srun torchrun`, as one starts it on nodes of 8 GPUs.
  const Environment nodes = {{"TORCHELASTIC_RUN_ID", "1"}, {"WORLD_SIZE", "16"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  for (const int mpi_size : {1, 2}) EXPECT_TRUE(mentions(launch_mistake(nodes, mpi_size), "WORLD_SIZE=16")) << mpi_size;
}

TEST(LaunchMistake, TorchrunDoesNotMatterWhereNothingIsWrong) {
  const Environment alone = {{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "1"}};
  EXPECT_FALSE(launch_mistake(alone, 1));
  EXPECT_FALSE(launch_mistake({{"WORLD_SIZE", "2"}, {"RANK", "1"}}, 1)) << "anybody's variable";
  EXPECT_TRUE(first_process({{"WORLD_SIZE", "2"}, {"RANK", "1"}}));
  const Environment inside = {{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  EXPECT_FALSE(launch_mistake(inside, 2)) << "an mpirun that a process of torchrun has started";
}

TEST(LaunchMistake, APositivePmixRankIsNotAlone) {
  EXPECT_TRUE(mentions(launch_mistake({{"PMIX_RANK", "3"}}, 1), "PMIX_RANK=3"));
}

TEST(LaunchMistake, APlainProgramInAnAllocationIsRightlyAlone) {
  EXPECT_FALSE(launch_mistake({{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}, 1));
  // A shell that `srun --pty` or salloc opened is a step of one task.
  EXPECT_FALSE(launch_mistake({{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}, 1));
}

TEST(LaunchMistake, TheNearestLauncherDecides) {
  // mpirun starts its daemons with srun, whose variables the processes inherit.
  EXPECT_FALSE(launch_mistake({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 1));
}

TEST(MissingPmi, IsExplainedWhereSrunConnectsNothing) {
  const auto by_none = missing_pmi({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}}, false);
  EXPECT_TRUE(mentions(by_none, "srun started 4 processes (SLURM_STEP_NUM_TASKS=4) without a PMI plugin"));
  EXPECT_TRUE(
      mentions(by_none, "To run one alone, in a shell that srun has started, put `env -u SLURM_STEP_NUM_TASKS`"));
  const auto shell = launch_mistake({{"SLURM_STEP_NUM_TASKS", "8"}}, 1);
  EXPECT_TRUE(mentions(shell,
                       "To run it alone, as one process of a shell that srun has started, put `env -u "
                       "SLURM_STEP_NUM_TASKS` before the command"));
  EXPECT_TRUE(mentions(by_none, "srun --mpi=pmix"));
  EXPECT_TRUE(mentions(by_none, "srun --mpi=list"));
  const Environment by_pmi2 = {{"SLURM_STEP_NUM_TASKS", "4"}, {"PMI_RANK", "2"}, {"SLURM_MPI_TYPE", "pmi2"}};
  EXPECT_TRUE(mentions(missing_pmi(by_pmi2, true),
                       "`srun --mpi=pmi2` started 4 processes (SLURM_STEP_NUM_TASKS=4) with a PMI plugin that this MPI "
                       "library cannot use"));
  EXPECT_FALSE(missing_pmi(by_pmi2, false));
}

TEST(MissingPmi, NothingIsMissingWhereALauncherConnects) {
  EXPECT_FALSE(missing_pmi({}, true));
  EXPECT_FALSE(missing_pmi({{"SLURM_STEP_NUM_TASKS", "1"}}, true));
  EXPECT_FALSE(missing_pmi({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}}, true));
  for (const char* variable : {"PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    EXPECT_FALSE(missing_pmi({{"SLURM_STEP_NUM_TASKS", "4"}, {variable, "1"}}, true)) << variable;
}

TEST(StoppedNeighbors, AreNamedWithTheirRanks) {
  EXPECT_EQ(stopped_neighbors(), "");
  // Both are children of this process; the output of the second one comes through the pipe.
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t stopped = fork();
  if (stopped == 0) execl("/usr/bin/env", "env", "PMIX_RANK=3", "sh", "-c", "kill -STOP $$; exit 0", nullptr);
  int status = 0;
  ASSERT_EQ(waitpid(stopped, &status, WUNTRACED), stopped);
  ASSERT_TRUE(WIFSTOPPED(status));
  const pid_t other = fork();
  if (other == 0) {
    const std::string text = stopped_neighbors();
    _exit(write(pipe_ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  std::array<char, 256> text{};
  EXPECT_GT(read(pipe_ends[0], text.data(), text.size() - 1), 0);
  EXPECT_EQ(std::string(text.data()), "process " + std::to_string(stopped) + " (rank 3) on this host is stopped");
  kill(stopped, SIGKILL);
  waitpid(stopped, nullptr, 0);
  waitpid(other, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(FirstProcess, IsWhatTheLauncherSays) {
  EXPECT_TRUE(first_process({}));
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    EXPECT_TRUE(first_process({{variable, "0"}})) << variable;
    EXPECT_FALSE(first_process({{variable, "1"}})) << variable;
  }
  EXPECT_FALSE(first_process({{"OMPI_COMM_WORLD_RANK", "1"}, {"SLURM_PROCID", "0"}}));
}

TEST(AllOnThisHost, IsWhatTheLauncherSays) {
  EXPECT_TRUE(all_on_this_host({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}));
  EXPECT_TRUE(all_on_this_host({{"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}));
  EXPECT_FALSE(all_on_this_host({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_FALSE(all_on_this_host({{"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_FALSE(all_on_this_host({{"PMI_SIZE", "x"}, {"MPI_LOCALNRANKS", "x"}}));
  EXPECT_FALSE(all_on_this_host({}));
}

TEST(LaunchMistake, ReadsTheEnvironmentOfThisProcess) { EXPECT_TRUE(read_environment().contains("PATH")); }

}  // namespace
}  // namespace lockstep
