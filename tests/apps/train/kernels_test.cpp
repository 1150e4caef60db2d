// SPDX-License-Identifier: Apache-2.0
// Tests --kernels: measured choices are stored in a file, and all ranks use them.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "support/verdict.hpp"

namespace lockstep::train {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

using testing_support::in_one_line;

/// Returns the word after these words in the output, wherever its lines are broken.
std::string word_after(const std::string& words, const std::string& output) {
  const std::string line = in_one_line(output);
  const std::size_t at = line.find(words);
  if (at == std::string::npos) return "no '" + words + "' in " + output;
  const std::size_t begin = at + words.size();
  return line.substr(begin, line.find(' ', begin) - begin);
}

class KernelsOfTheProgram : public testing::Test {
 protected:
  [[nodiscard]] std::string with_file(const std::string& more) const {
    return digits_.arguments() + " --batch 24 --steps 3 --threads 1 --kernels " + file_ + ' ' + more;
  }

  const SmallDigits digits_;
  const std::string file_ = digits_.path("kernels.txt");
};

TEST_F(KernelsOfTheProgram, AreMeasuredOnceAndTheSameOnAnyRanks) {
  const std::string metrics = digits_.path("metrics.json");
  const auto first = run_train(2, with_file("--shards 4 --metrics " + metrics));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  ASSERT_EQ(occurrences(in_one_line(first.output), "kernels by " + file_), 1) << first.output;
  if (occurrences(in_one_line(first.output), ": 0 operators") == 1)
    LOCKSTEP_SKIP(winograd) << "oneDNN has none for this processor";
  EXPECT_EQ(occurrences(in_one_line(first.output), "1 operators (0 known, 1 measured"), 1) << first.output;
  EXPECT_EQ(read_metrics(metrics).front().at("kernel_choices"), word_after("hash ", first.output));
  const std::string written = contents(file_);
  EXPECT_NE(written.find("\n6 "), std::string::npos) << "the shard's samples, not the rank's\n" << written;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(file_).parent_path()))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();

  const auto alone = run_train(1, with_file("--shards 4"));
  EXPECT_EQ(occurrences(in_one_line(alone.output), "1 operators (1 known, 0 measured"), 1) << alone.output;
  for (const char* what : {"hash ", "weights sha256 "})
    EXPECT_EQ(word_after(what, alone.output), word_after(what, first.output)) << what;

  // Without shards a rank's part is a leaf of another size.
  const auto ranks = run_train(2, with_file(""));
  EXPECT_EQ(occurrences(in_one_line(ranks.output), "1 operators (0 known, 1 measured"), 1) << ranks.output;
  EXPECT_NE(contents(file_).find("\n12 "), std::string::npos) << contents(file_);
  EXPECT_NE(contents(file_).find("\n6 "), std::string::npos) << "what was there is gone\n" << contents(file_);
  EXPECT_NE(contents(file_), written);
}

/// Exchanges the algorithm in the file for the forward pass of the shard's convolution.
bool turn_forward(std::string& text) {
  const std::string before = "\n6 onednn ";
  const std::size_t word = text.find(before) + before.size();
  const bool is_direct = text.compare(word, 6, "direct") == 0;
  text.replace(word, is_direct ? 6 : 8, is_direct ? "winograd" : "direct");
  return is_direct;
}

TEST_F(KernelsOfTheProgram, AreWhatTheFileSays) {
  const auto measured = run_train(1, with_file("--shards 4"));
  std::string text = contents(file_);
  if (text.empty()) LOCKSTEP_SKIP(winograd) << "oneDNN has none for this processor\n" << measured.output;
  const bool becomes_winograd = turn_forward(text);
  std::ofstream(file_) << text;
  const auto turned = run_train(2, with_file("--shards 4 --explain-step"));
  EXPECT_EQ(turned.exit_code, 0) << turned.output;
  const std::string rest = turned.output.substr(turned.output.find("forward conv2 "));
  const std::string kernel = rest.substr(0, rest.find("forward pool2 "));
  EXPECT_EQ(occurrences(kernel, "wino"), becomes_winograd ? 1 : 0) << turned.output;
  EXPECT_NE(word_after("weights sha256 ", turned.output), word_after("weights sha256 ", measured.output));
}

/// A run that resumes with another compute library computes by that one's rule, and says so.
TEST_F(KernelsOfTheProgram, OfAnotherLibraryDoNotBindARunThatResumes) {
  const std::string folder = digits_.path("run");
  const auto first = run_train(1, with_file("--shards 4 --save-dir " + folder));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  if (occurrences(in_one_line(first.output), ": 0 operators") == 1)
    LOCKSTEP_SKIP(winograd) << "oneDNN has none for this processor";
  const auto resumed =
      run_train(1, digits_.arguments() + " --batch 24 --steps 6 --threads 1 --shards 4 --ops reference" +
                       " --resume last --save-dir " + folder);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(occurrences(in_one_line(resumed.output),
                        "1 kernel choices of the checkpoint are not used: they are another "
                        "compute library's than --ops reference"),
            1)
      << resumed.output;
}

TEST_F(KernelsOfTheProgram, OfABrokenFileAreRefused) {
  std::ofstream(file_) << "lockstep kernel choices, version 2\non this\n64 onednn direct twisted\n";
  expect_refused(run_train(2, with_file("")), 1, {file_ + ", line 3: '64 onednn direct twisted' is too short"});
  EXPECT_EQ(occurrences(contents(file_), "twisted"), 1) << "what somebody wrote is not overwritten";
}

}  // namespace
}  // namespace lockstep::train
