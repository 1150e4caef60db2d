// SPDX-License-Identifier: Apache-2.0
// Tests what is generated from the tables of options: --help, docs/train.md, man pages and shell completion.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Returns bash's completions for a command line of train, whose last word is to be completed.
std::string completed(const std::string& words) {
  const std::string script = std::string("source <(") + LOCKSTEP_TRAIN + " --help=completion); COMP_WORDS=(" + words +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _lockstep_train; echo \"${COMPREPLY[*]}\"";
  const auto result = run_program("bash -c '" + script + "' 2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

constexpr const char* programs[] = {LOCKSTEP_TRAIN, LOCKSTEP_TOPO, LOCKSTEP_COMM_BENCH, LOCKSTEP_COMM_CHECK};

TEST(Documentation, OfTrainIsWhatTheProgramWrites) {
  const auto written = run_program(std::string(LOCKSTEP_TRAIN) + " --help=markdown");
  EXPECT_EQ(text_of(LOCKSTEP_SOURCE "/docs/train.md"), written.output)
      << "run: build/dev/bin/train --help=markdown > docs/train.md";
}

TEST(Help, FitsTheWidthThatThereIs) {
  for (const char* program : programs) {
    for (const auto& [columns, most] :
         {std::pair("COLUMNS=80", 80U), std::pair("COLUMNS=300", 100U), std::pair("-u COLUMNS", 100U)}) {
      const auto result = run_program("env " + std::string(columns) + ' ' + program + " --help");
      EXPECT_LE(longest_line(result.output), most) << result.output;
      EXPECT_GT(longest_line(result.output), most - 20) << result.output;
    }
  }
}

TEST(Help, IsAnErrorWhereItCannotBeWritten) {
  for (const char* program : programs) {
    const auto result = run_program(std::string(program) + " --help 2>&1 >/dev/full");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(occurrences(result.output, "cannot write all of standard output: "), 1) << result.output;
  }
  EXPECT_EQ(run_program(std::string(LOCKSTEP_TOPO) + " 2>&1 >/dev/full").exit_code, 1);
}

TEST(ManPage, HasEverySection) {
  for (const char* program : programs) {
    const auto page = run_program(std::string(program) + " --help=man").output;
    for (const char* section : {".TH ", "\n.SH NAME\n", "\n.SH SYNOPSIS\n", "\n.SH OPTIONS\n", "\n.SH EXIT STATUS\n"}) {
      EXPECT_EQ(occurrences(page, section), 1) << section << page;
    }
  }
}

TEST(Completion, KnowsOptionsAndTheirValues) {
  EXPECT_EQ(completed("train --al"), "--algorithm\n");
  EXPECT_EQ(completed("train --model res"), "resnet18 resnet20 resnet32 resnet34 resnet44 resnet50 resnet56\n");
  EXPECT_EQ(completed("train --model = lenet --precision = b"), "bf16\n");
  EXPECT_EQ(completed("train --dataset = "),
            "mnist cifar10 synthetic-digits synthetic-cifar synthetic-imagenet synthetic-boxes synthetic-masks "
            "synthetic-words\n");
  EXPECT_EQ(completed("train --data-dir /et"), "/etc\n");
  EXPECT_EQ(completed("train --lr 0."), "\n");
}

}  // namespace
}  // namespace lockstep::testing_support
