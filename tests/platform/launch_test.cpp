// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/launch.hpp"

#include <gtest/gtest.h>

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

TEST(LaunchMistake, APositivePmixRankIsNotAlone) {
  EXPECT_TRUE(mentions(launch_mistake({{"PMIX_RANK", "3"}}, 1), "PMIX_RANK=3"));
}

TEST(LaunchMistake, APlainProgramInAnAllocationIsRightlyAlone) {
  EXPECT_FALSE(launch_mistake({{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}, 1));
  // A shell that `srun --pty` or salloc opened is a step of one task.
  EXPECT_FALSE(launch_mistake({{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}, 1));
}

TEST(LaunchMistake, TheNearestLauncherDecides) {
  // mpirun starts its daemons by srun, whose variables the processes inherit.
  EXPECT_FALSE(launch_mistake({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 1));
}

TEST(FirstProcess, IsWhatTheLauncherSays) {
  EXPECT_TRUE(first_process({}));
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    EXPECT_TRUE(first_process({{variable, "0"}})) << variable;
    EXPECT_FALSE(first_process({{variable, "1"}})) << variable;
  }
  EXPECT_FALSE(first_process({{"OMPI_COMM_WORLD_RANK", "1"}, {"SLURM_PROCID", "0"}}));
}

TEST(LaunchMistake, ReadsTheEnvironmentOfThisProcess) { EXPECT_TRUE(read_environment().contains("PATH")); }

}  // namespace
}  // namespace lockstep
