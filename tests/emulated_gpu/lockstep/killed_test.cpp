// SPDX-License-Identifier: Apache-2.0
// A rank is killed in an operation on GPUs. The others get an error that names it, whether NCCL notices or not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include "support/run_program.hpp"
#include "support/verdict.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

constexpr int ranks = 3;
constexpr int deadline_seconds = 3;

struct Note {
  std::int64_t nanoseconds = 0;
  std::string words;
};
Note read(const std::filesystem::path& path) {
  Note note;
  std::ifstream file(path);
  file >> note.nanoseconds >> std::ws;
  std::getline(file, note.words);
  return note;
}

class Killed : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lockstep-killed-" + std::to_string(getpid()));
};

TEST_P(Killed, IsNamedByAllOthers) {
  const std::string flag = testing_support::recovery_flag(LOCKSTEP_MPIEXEC);
  if (flag.empty()) LOCKSTEP_SKIP(mpi) << LOCKSTEP_MPIEXEC << " lets no rank outlive another";
  const auto& [notices, method] = GetParam();
  const auto job = testing_support::run_program(
      "EMULATED_NCCL_NOTICES=" + std::to_string(notices) + ' ' + LOCKSTEP_MPIEXEC + flag + " -n " +
      std::to_string(ranks) + ' ' + LOCKSTEP_MORTAL_RANK + ' ' + folder().string() + ' ' + method + ' ' +
      std::to_string(deadline_seconds) + (notices == 0 ? " 0" : " 20") + " 2>&1");
  const Note death = read(folder() / "death");
  ASSERT_GT(death.nanoseconds, 0) << job.output;
  for (int rank = 0; rank < ranks - 1; ++rank) {
    const Note note = read(folder() / std::to_string(rank));
    ASSERT_GT(note.nanoseconds, 0) << "rank " << rank << " wrote nothing\n" << job.output;
    const double seconds = static_cast<double>(note.nanoseconds - death.nanoseconds) / 1e9;
    std::printf("rank %d knew after %.2f s: %s\n", rank, seconds, note.words.c_str());
    EXPECT_TRUE(note.words.starts_with("names")) << note.words;
    EXPECT_LT(seconds, 1.2 * deadline_seconds + 1.5);
  }
}

std::string name_of(const testing::TestParamInfo<Killed::ParamType>& parameter) {
  const auto& [notices, method] = parameter.param;
  return std::string(notices == 0 ? "WithoutANotice" : "WithNcclsNotice") +
         (std::string(method) == "auto" ? "" : "InTreeOrder");
}

INSTANTIATE_TEST_SUITE_P(, Killed, testing::Combine(testing::Values(0, 1), testing::Values("auto", "tree-order")),
                         name_of);

}  // namespace
}  // namespace lockstep::on_emulated_gpus
