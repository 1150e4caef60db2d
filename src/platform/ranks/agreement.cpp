// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/agreement.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "base/nearest.hpp"

namespace lockstep {
namespace {

// Separators after a name and a value: bytes that no user's text contains. A harmless term has another one after its
// name. The facts follow the terms, and the error of a failed check is a fact without a name.
constexpr char after_name = '\x1f';
constexpr char after_harmless_name = '\x1d';
constexpr char after_value = '\x1e';
constexpr char after_terms = '\x1c';

constexpr std::size_t longest_value = 400;  // in a message

void append(std::string& text, const Term& term) {
  text += term.name + (term.is_harmless ? after_harmless_name : after_name) + term.value + after_value;
}

/// Reads what `append` has written, perhaps that of another build.
std::vector<Term> terms_from(const std::string& text) {
  std::vector<Term> terms;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t value_end = std::min(text.find(after_value, at), text.size());
    const std::string entry = text.substr(at, value_end - at);
    const std::size_t name_end =
        std::min(entry.find_first_of(std::string{after_name, after_harmless_name}), entry.size());
    terms.push_back({entry.substr(0, name_end), entry.substr(std::min(name_end + 1, entry.size())),
                     name_end < entry.size() && entry[name_end] == after_harmless_name});
    at = value_end + 1;
  }
  return terms;
}

const std::string* value_in(const std::vector<Term>& terms, const std::string& name) {
  // If a rank has a name twice, the last value counts.
  const auto found = std::find_if(terms.rbegin(), terms.rend(), [&](const Term& term) { return term.name == name; });
  return found == terms.rend() ? nullptr : &found->value;
}

/// The ranks that have the same value.
struct EqualRanks {
  std::string value;
  std::vector<int> ranks;
};

std::vector<EqualRanks> grouped_by_value(const std::vector<std::vector<Term>>& all, const std::string& name) {
  std::vector<EqualRanks> groups;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string* const known = value_in(all[rank], name);
    const std::string value = known == nullptr ? "(nothing)" : *known;
    auto at = std::find_if(groups.begin(), groups.end(), [&](const EqualRanks& g) { return g.value == value; });
    if (at == groups.end()) at = groups.insert(groups.end(), {value, {}});
    at->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

/// Compares what all ranks have for one name.
class Comparison {
 public:
  Comparison(const RankSet& group, const std::vector<std::vector<Term>>& all) : group_(group), all_(all) {}

  /// @return empty if the values are equal; otherwise "rank 3 on host2 has --lr 0.2, the other 15 have 0.1"
  std::string difference(const std::string& name) {
    std::vector<EqualRanks> groups = grouped_by_value(all_, name);
    if (groups.size() == 1) return {};
    std::string ending;
    const auto majority =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return 2 * g.ranks.size() > all_.size(); });
    if (majority != groups.end()) {
      const std::size_t others = majority->ranks.size();
      ending = others == 1 ? ", the other one has " : ", the other " + std::to_string(others) + " have ";
      ending += echo(majority->value, longest_value);
      groups.erase(majority);
    }
    std::string text;
    for (const EqualRanks& odd : groups) {
      text += (text.empty() ? "" : ", ") + rank_names(odd.ranks, [&](int r) { return group_.host_of(Rank{r}); });
      text += (odd.ranks.size() == 1 ? " has " : " have ") + echo(name) + " " + echo(odd.value, longest_value);
      odd_.insert(odd.ranks.begin(), odd.ranks.end());
    }
    return text + ending;
  }

  [[noreturn]] void refuse(const std::string& differences) const {
    throw Error(ErrorCode::mismatch, differences, {.peers = std::vector<int>(odd_.begin(), odd_.end())})
        .on_every_rank();
  }

 private:
  const RankSet& group_;
  const std::vector<std::vector<Term>>& all_;
  std::set<int> odd_;  // ranks that differ from the majority, in any name
};

}  // namespace

void Agreement::add(std::vector<Term> terms) {
  terms_.insert(terms_.end(), std::make_move_iterator(terms.begin()), std::make_move_iterator(terms.end()));
}

void Agreement::exchange(const RankSet& group) {
  std::string mine;
  for (const Term& term : terms_) append(mine, term);
  mine += after_terms;
  for (const auto& [name, value] : facts_) append(mine, {name, value});
  if (failure_) append(mine, {"", to_text(*failure_)});
  const std::vector<std::string> all = group.exchange(mine);
  std::vector<std::string> terms;
  group_ = &group;
  all_facts_.clear();
  for (const std::string& text : all) {
    const std::size_t end = std::min(text.find(after_terms), text.size());
    terms.push_back(text.substr(0, end));
    all_facts_.push_back(terms_from(text.substr(std::min(end + 1, text.size()))));
  }
  all_terms_.clear();  // stays empty if all ranks have equal terms, which takes no time on many ranks
  if (std::adjacent_find(terms.begin(), terms.end(), std::not_equal_to<>()) == terms.end()) return;
  for (const std::string& text : terms) all_terms_.push_back(terms_from(text));
}

std::string Agreement::require_equal_terms() const {
  std::map<std::string, bool> is_harmless;  // by name; the strictest rank decides
  for (const std::vector<Term>& terms : all_terms_) {
    for (const Term& term : terms) {
      const auto known = is_harmless.emplace(term.name, term.is_harmless).first;
      known->second = known->second && term.is_harmless;
    }
  }
  Comparison strict(*group_, all_terms_);
  Comparison harmless(*group_, all_terms_);
  std::string errors;
  std::string warnings;
  for (const auto& [name, may_differ] : is_harmless) {
    std::string& message = may_differ ? warnings : errors;
    const std::string difference = (may_differ ? harmless : strict).difference(name);
    if (!difference.empty()) message += (message.empty() ? "" : "; ") + difference;
  }
  if (!errors.empty()) strict.refuse(errors);
  return warnings;
}

void Agreement::require_equal_fact(const std::string& name) const {
  Comparison comparison(*group_, all_facts_);
  if (const std::string difference = comparison.difference(name); !difference.empty()) comparison.refuse(difference);
}

void Agreement::throw_failed_checks() const {
  std::vector<std::optional<Error>> errors;
  for (const std::string& text : fact("")) {
    errors.emplace_back();
    if (!text.empty()) errors.back() = error_from_text(text);
  }
  throw_first_of(*group_, errors);
}

std::vector<std::string> Agreement::fact(const std::string& name) const {
  std::vector<std::string> values;
  for (const std::vector<Term>& facts : all_facts_) {
    const std::string* const value = value_in(facts, name);
    values.push_back(value == nullptr ? std::string() : *value);
  }
  return values;
}

std::string require_equal(const RankSet& group, std::vector<Term> mine) {
  Agreement agreement;
  agreement.add(std::move(mine));
  agreement.exchange(group);
  return agreement.require_equal_terms();
}

}  // namespace lockstep
