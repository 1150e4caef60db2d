// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep {

/// A value that should be equal on all ranks, with its name and value as the user knows them.
struct Term {
  std::string name;
  std::string value;
  bool is_harmless = false;  ///< whether ranks may have different values, which is only worth a warning
};

/// What the ranks of a group agree on in one exchange, before anything that depends on it is exchanged. Each part of
/// the program adds its terms, which must be equal; facts, which the other ranks need to know and which may differ; and
/// checks that only this rank can make. All functions but `exchange` are local, and those after it have the same result
/// on every rank.
class Agreement {
 public:
  void add(std::vector<Term> terms);
  void add_fact(std::string name, std::string value) { facts_.emplace_back(std::move(name), std::move(value)); }
  /// Runs a check. If it throws, `throw_failed_checks` throws the error on every rank; the first error of a rank
  /// counts.
  template <std::invocable Check>
  void add_check(const Check& check) {
    if (!failure_) failure_ = error_of(check);
  }

  /// Exchanges what has been added. Collective. @throws Error{transport | timeout}
  /// @cost two all-gathers, of a number and of the texts
  void exchange(const RankSet& group);

  /// Compares the terms. @return the harmless differences; empty if there are none
  /// @throws Error{mismatch} on every rank (`Error::is_on_every_rank`), if a term differs that is not harmless: "rank 3
  ///         on host2 has --lr 0.2, the other 15 have 0.1". Its peers are the ranks that differ from the majority, or
  ///         all if there is none
  [[nodiscard]] std::string require_equal_terms() const;
  /// Does the same for a fact. @throws as above
  void require_equal_fact(const std::string& name) const;
  /// @throws the error of the lowest rank of which a check has failed, on every rank, as `agree` does
  void throw_failed_checks() const;

  /// The values of a fact, by rank; empty where a rank has not added it.
  [[nodiscard]] std::vector<std::string> fact(const std::string& name) const;

 private:
  std::vector<Term> terms_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::optional<Error> failure_;
  const RankSet* group_ = nullptr;            // set by `exchange`
  std::vector<std::vector<Term>> all_terms_;  // by rank
  std::vector<std::vector<Term>> all_facts_;
};

/// Compares terms in an exchange of their own. Collective. @return and @throws as Agreement::require_equal_terms
std::string require_equal(const RankSet& group, std::vector<Term> mine);

}  // namespace lockstep
