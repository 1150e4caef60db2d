// SPDX-License-Identifier: Apache-2.0
// A fixed piece of work for a compiler: test.sh scales the time that a stage may take by the time that this takes. A
// change of this file changes what all budgets mean.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

std::map<std::string, std::vector<std::string>> words(const std::string& text) {
  const std::regex word("[a-z]+");
  std::map<std::string, std::vector<std::string>> result;
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) {
    result[at->str().substr(0, 1)].push_back(at->str());
  }
  for (auto& [letter, list] : result) std::sort(list.begin(), list.end(), std::greater<>());
  return result;
}
