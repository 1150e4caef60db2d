// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/require_equal.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/bootstrap.hpp"

namespace lockstep {
namespace {

// Separators after a name and a value: bytes that no user's text contains.
constexpr char after_name = '\x1f';
constexpr char after_value = '\x1e';

using Values = std::map<std::string, std::string>;

std::string to_text(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) text += setting.name + after_name + setting.value + after_value;
  return text;
}

Values values_from(const std::string& text) {
  Values values;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t name_end = text.find(after_name, at);
    const std::size_t value_end = text.find(after_value, name_end);
    values[text.substr(at, name_end - at)] = text.substr(name_end + 1, value_end - name_end - 1);
    at = value_end + 1;
  }
  return values;
}

/// Ranks with the same value.
struct Party {
  std::string value;
  std::vector<int> ranks;
};

std::vector<Party> parties(const std::vector<Values>& all, const std::string& name) {
  std::vector<Party> found;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto at = all[rank].find(name);
    const std::string value = at == all[rank].end() ? "(nothing)" : at->second;
    auto party = std::find_if(found.begin(), found.end(), [&](const Party& p) { return p.value == value; });
    if (party == found.end()) party = found.insert(found.end(), {value, {}});
    party->ranks.push_back(static_cast<int>(rank));
  }
  return found;
}

/// Names the ranks and their value: "rank 3 on host2 has --lr 0.2".
std::string who_has(const MpiGroup& group, const Party& party, const std::string& name) {
  const std::string who = rank_names(party.ranks, [&](int rank) { return group.host_of(Rank{rank}); });
  return who + (party.ranks.size() == 1 ? " has " : " have ") + name + " " + party.value;
}

/// @param odd  the ranks that are named are added to it
std::string complaint(const MpiGroup& group, std::vector<Party> all, const std::string& name, std::set<int>& odd) {
  std::string ending;
  const auto majority = std::find_if(all.begin(), all.end(), [&](const Party& p) {
    return 2 * p.ranks.size() > static_cast<std::size_t>(group.size());
  });
  if (majority != all.end()) {
    const std::size_t others = majority->ranks.size();
    ending = others == 1 ? ", the other one has " : ", the other " + std::to_string(others) + " have ";
    ending += majority->value;
    all.erase(majority);
  }
  std::string text;
  for (const Party& party : all) {
    text += (text.empty() ? "" : ", ") + who_has(group, party, name);
    odd.insert(party.ranks.begin(), party.ranks.end());
  }
  return text + ending;
}

}  // namespace

void require_equal(const MpiGroup& group, const std::vector<Setting>& mine) {
  const std::vector<std::string> texts = all_gather_strings(group, to_text(mine));
  if (std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end()) return;
  std::vector<Values> all;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    all.push_back(values_from(text));
    for (const auto& [name, value] : all.back()) names.insert(name);
  }
  std::string message;
  std::set<int> odd;
  for (const std::string& name : names) {
    std::vector<Party> found = parties(all, name);
    if (found.size() > 1) message += (message.empty() ? "" : "; ") + complaint(group, std::move(found), name, odd);
  }
  throw Error(ErrorCode::mismatch, message, {.peers = std::vector<int>(odd.begin(), odd.end())}).on_every_rank();
}

}  // namespace lockstep
