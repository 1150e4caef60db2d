// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <iterator>

#include "lockstep/base/error.hpp"
#include "platform/machine/topology.hpp"

namespace lockstep {
namespace {

/// It is larger than the number of processors of any machine, and keeps a mistyped range from filling the memory.
constexpr int largest_number = 1 << 20;

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorCode::invalid_argument,
              "'" + std::string(text) + "' is not a set of processors; write numbers and ranges, like 0-3,8");
}

int read_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > largest_number) refuse(text);
  return value;
}

}  // namespace

CpuSet::CpuSet(std::vector<int> numbers) : numbers_(std::move(numbers)) {
  std::sort(numbers_.begin(), numbers_.end());
  numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
}

CpuSet CpuSet::parse(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto part = text.substr(0, comma);
    const auto dash = part.find('-');
    const int first = read_number(part.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : read_number(part.substr(dash + 1));
    if (last < first) refuse(part);
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) refuse(",");
  }
  return CpuSet(std::move(numbers));
}

std::string CpuSet::text() const {
  std::string text;
  for (std::size_t first = 0; first < numbers_.size();) {
    std::size_t last = first;
    while (last + 1 < numbers_.size() && numbers_[last + 1] == numbers_[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers_[first]);
    if (last > first) text += '-' + std::to_string(numbers_[last]);
    first = last + 1;
  }
  return text;
}

bool CpuSet::includes(const CpuSet& other) const {
  return std::includes(numbers_.begin(), numbers_.end(), other.numbers_.begin(), other.numbers_.end());
}

CpuSet operator&(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::set_intersection(a.numbers_.begin(), a.numbers_.end(), b.numbers_.begin(), b.numbers_.end(),
                        std::back_inserter(both.numbers_));
  return both;
}

CpuSet operator|(const CpuSet& a, const CpuSet& b) {
  CpuSet either;
  std::set_union(a.numbers_.begin(), a.numbers_.end(), b.numbers_.begin(), b.numbers_.end(),
                 std::back_inserter(either.numbers_));
  return either;
}

}  // namespace lockstep
