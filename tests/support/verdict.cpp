// SPDX-License-Identifier: Apache-2.0
#include "support/verdict.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::testing_support {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <typename Function>
void for_each_case(const Function& function) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) function(*suite.GetTestInfo(k));
  }
}

/// Returns the message of the case's LOCKSTEP_SKIP.
std::string why_skipped(const testing::TestInfo& test) {
  for (int i = 0; i < test.result()->total_part_count(); ++i) {
    if (test.result()->GetTestPartResult(i).skipped()) return test.result()->GetTestPartResult(i).message();
  }
  return "";
}

/// Returns the word in brackets that LOCKSTEP_SKIP puts into the message.
std::string reason_of(const std::string& message) {
  const auto begin = message.find('[');
  const auto end = message.find(']');
  return begin == std::string::npos || end == std::string::npos ? "" : message.substr(begin + 1, end - begin - 1);
}

}  // namespace

void select_files(int argc, char** argv) {
  const std::string option = "--files=";
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (const std::string argument = argv[i]; argument.starts_with(option))
      files = split(argument.substr(option.size()));
  }
  if (files.empty() || testing::GTEST_FLAG(filter) != "*") return;
  std::string filter;
  for_each_case([&](const testing::TestInfo& test) {
    if (!contains(files, std::filesystem::path(test.file()).filename())) return;
    filter += std::string(test.test_suite_name()) + '.' + test.name() + ':';
  });
  if (filter.empty()) throw std::runtime_error(std::string("no test is defined in any file of ") + argv[argc - 1]);
  testing::GTEST_FLAG(filter) = filter;
}

int verdict(int failed) {
  const char* list = std::getenv("LOCKSTEP_REQUIRE");
  const std::vector<std::string> required = split(list == nullptr ? "" : list);
  bool refused = false;
  bool ran = false;
  bool skipped = false;
  for_each_case([&](const testing::TestInfo& test) {
    if (!test.should_run()) return;
    if (!test.result()->Skipped()) {
      ran = true;
      return;
    }
    skipped = true;
    const std::string reason = reason_of(why_skipped(test));
    if (!reason.empty() && !contains(required, reason)) return;
    refused = true;
    std::fprintf(stderr, "%s.%s may not be skipped: %s\n", test.test_suite_name(), test.name(),
                 reason.empty() ? "no reason of LOCKSTEP_SKIP is given" : ("LOCKSTEP_REQUIRE names " + reason).c_str());
  });
  if (failed != 0 || refused || (!ran && !skipped)) return 1;
  return ran ? 0 : all_skipped;
}

}  // namespace lockstep::testing_support
