// SPDX-License-Identifier: Apache-2.0
// Two ranks that are not alike start, and say so before they train.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "apps/train/train_program.hpp"

namespace lockstep::train {
namespace {

using testing_support::in_one_line;

/// Runs rank 0 by one command and rank 1 by another one.
ProgramResult run_pair(const std::string& rank0, const std::string& rank1) {
  return testing_support::run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 1 " + rank0 + " : -np 1 " + rank1 +
                                      " 2>&1");
}

std::string odd_ranks(const std::string& arguments) {
  return std::string(LOCKSTEP_ODD_RANKS) + " --batch 8 --steps 1 --eval-interval never --save-dir none --threads 1 " +
         arguments;
}

/// Expects that both ranks are named with their hosts and values, and that nothing was trained.
void expect_mismatch(const ProgramResult& result, const std::vector<std::string>& parts) {
  const std::string output = in_one_line(result.output);
  EXPECT_EQ(result.exit_code, 1) << output;
  EXPECT_EQ(occurrences(output, "mismatch: rank 0 on "), 1) << output;
  EXPECT_GE(occurrences(output, ", rank 1 on "), 1) << output;
  EXPECT_EQ(occurrences(output, "images/s"), 0) << output;
  for (const std::string& part : parts) EXPECT_EQ(occurrences(output, part), 1) << part << '\n' << output;
}

/// Copies a program and changes its build ID, as if it had been built from other sources. @return whether it has one
bool copy_with_other_build_id(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::copy_file(from, to);
  std::fstream file(to, std::ios::in | std::ios::out | std::ios::binary);
  std::string start(std::size_t{1} << 16, '\0');  // the note is at the beginning of the file
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  constexpr std::array<char, 8> type_and_name = {3, 0, 0, 0, 'G', 'N', 'U', 0};  // NT_GNU_BUILD_ID
  const auto note = std::search(start.begin(), start.end(), type_and_name.begin(), type_and_name.end());
  if (note == start.end()) return false;
  const auto id = note - start.begin() + static_cast<std::ptrdiff_t>(type_and_name.size());
  file.clear();
  file.seekp(id);
  file.put(static_cast<char>(start[static_cast<std::size_t>(id)] ^ 1));
  return static_cast<bool>(file);
}

TEST(Agreement, AnotherBuildOnOneRankIsAnError) {
  const data::TemporaryDirectory folder;
  const std::string other = (folder.path() / "odd_ranks").string();
  ASSERT_TRUE(copy_with_other_build_id(LOCKSTEP_ODD_RANKS, other)) << "the program has no build ID";
  const std::string arguments = " --steps 1 --save-dir none";
  const auto result = run_pair(LOCKSTEP_ODD_RANKS + arguments, other + arguments);
  expect_mismatch(result, {"; start the same program with the same options and environment on all ranks"});
  EXPECT_EQ(occurrences(result.output, " has build "), 2) << result.output;
}

TEST(Agreement, AnotherInstructionSetAndNumberOfThreadsOnOneRankAreOneWarning) {
  const auto result = run_pair(odd_ranks("--device cpu"),
                               "env OMP_NUM_THREADS=7 ONEDNN_MAX_CPU_ISA=SSE41 " + odd_ranks("--device cpu"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "warning: ranks differ, and the run goes on: "), 1) << result.output;
  EXPECT_GE(occurrences(in_one_line(result.output), ", rank 1 on "), 2) << result.output;
  for (const char* part : {"has the variable OMP_NUM_THREADS '7'", "has oneDNN for SSE4.1"})
    EXPECT_EQ(occurrences(in_one_line(result.output), part), 1) << part << '\n' << result.output;
}

TEST(Agreement, AnotherInstructionSetOnOneRankIsAnErrorWithShards) {
  const auto result = run_pair(odd_ranks("--shards 2"), "env ONEDNN_MAX_CPU_ISA=SSE41 " + odd_ranks("--shards 2"));
  expect_mismatch(result, {"has the variable ONEDNN_MAX_CPU_ISA 'SSE41'", "has oneDNN for SSE4.1"});
}

TEST(Agreement, AnotherFileOfEqualSizeOnOneRankIsAnError) {
  const data::TemporaryDirectory one;
  const data::TemporaryDirectory other;
  std::string numbers(1000, '\1');
  data::write_plain(one.path() / "numbers", numbers);
  numbers[501] = '\2';  // none of 64 samples at equal distances
  data::write_plain(other.path() / "numbers", numbers);
  const std::string dataset = "--dataset files --data-dir ";
  const auto result = run_pair(odd_ranks(dataset + one.path().string()), odd_ranks(dataset + other.path().string()));
  expect_mismatch(result, {"; give all ranks the same files (--data-dir)"});
  EXPECT_EQ(occurrences(result.output, " has training signal with hash of 1000 samples "), 2) << result.output;
}

TEST(Agreement, WithAFullFingerprintASingleSampleOfDrawnDataIsCompared) {
  const std::string command = odd_ranks("--full-fingerprint");
  const auto result = run_pair(command, "env ODD_SAMPLE=500 " + command);
  expect_mismatch(result, {});
  EXPECT_EQ(occurrences(result.output, " has training signal with hash of 600 samples "), 2) << result.output;
}

TEST(Agreement, AModelOfAWorkloadThatIsNotThereIsAMistake) {
  const std::string command = odd_ranks("--model stray");
  const auto result = run_pair(command, command);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(in_one_line(result.output)
                .find("--model stray: there is no workload 'classing'; there are classification, detection, "
                      "segmentation, text, other"),
            std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace lockstep::train
