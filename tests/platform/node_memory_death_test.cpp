// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/run_program.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

/// Returns the first word of a file that another process will have written soon.
std::string word_in(const std::filesystem::path& file) {
  for (int i = 0; i < 3000 && !std::filesystem::exists(file); ++i) std::this_thread::sleep_for(10ms);
  std::string word = "nothing";
  std::ifstream(file) >> word;
  return word;
}

TEST(NodeMemoryDeath, AKilledRankIsNamed) {
  const auto folder = std::filesystem::temp_directory_path() / ("lockstep-death-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  // Open MPI kills the other ranks a second later, so that the victim is the only dead rank when its peers look.
  const auto job =
      testing_support::run_program("env OMPI_MCA_odls_base_sigkill_timeout=1 " + std::string(LOCKSTEP_MPIEXEC) +
                                   " -np 3 " + LOCKSTEP_VICTIM + ' ' + folder.string() + " 2>&1");
  EXPECT_NE(job.exit_code, 0) << job.output;
  EXPECT_EQ(word_in(folder / "0"), "1") << job.output;
  EXPECT_EQ(word_in(folder / "2"), "1") << job.output;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
