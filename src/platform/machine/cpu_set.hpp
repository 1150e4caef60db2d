// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A set of processors by number: processing units (hardware threads) as the operating system counts them, or cores.
class CpuSet {
 public:
  CpuSet() = default;
  /// @param numbers  ≥ 0, in any order, repeats allowed
  explicit CpuSet(std::vector<int> numbers);

  /// Reads "0-3,8", the format of taskset and Slurm; the empty string is the empty set.
  /// @throws Error{invalid_argument}
  static CpuSet parse(std::string_view text);
  /// Formats the set as "0-3,8".
  [[nodiscard]] std::string text() const;

  [[nodiscard]] const std::vector<int>& numbers() const { return numbers_; }  ///< ascending
  [[nodiscard]] int size() const { return static_cast<int>(numbers_.size()); }
  [[nodiscard]] bool empty() const { return numbers_.empty(); }
  [[nodiscard]] bool includes(const CpuSet& other) const;
  [[nodiscard]] bool intersects(const CpuSet& other) const { return !(*this & other).empty(); }

  friend CpuSet operator&(const CpuSet& a, const CpuSet& b);
  friend CpuSet operator|(const CpuSet& a, const CpuSet& b);
  friend bool operator==(const CpuSet&, const CpuSet&) = default;
  /// An arbitrary order, for sorted containers.
  friend bool operator<(const CpuSet& a, const CpuSet& b) { return a.numbers_ < b.numbers_; }

 private:
  std::vector<int> numbers_;
};

}  // namespace lockstep
