// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/agreement.hpp"

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

// Separators after a name and a value: bytes that no user's text contains. A harmless setting has another one after its
// name.
constexpr char after_name = '\x1f';
constexpr char after_harmless_name = '\x1d';
constexpr char after_value = '\x1e';

constexpr std::size_t longest_value = 400;  // in a message

/// The settings of a rank, by name.
using Settings = std::map<std::string, Term>;

/// Reads what `to_text` has written, perhaps that of another build.
Settings settings_from(const std::string& text) {
  Settings settings;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t value_end = std::min(text.find(after_value, at), text.size());
    const std::string entry = text.substr(at, value_end - at);
    const std::size_t name_end =
        std::min(entry.find_first_of(std::string{after_name, after_harmless_name}), entry.size());
    const std::string name = entry.substr(0, name_end);
    const std::string value = entry.substr(std::min(name_end + 1, entry.size()));
    settings[name] = {name, value, name_end < entry.size() && entry[name_end] == after_harmless_name};
    at = value_end + 1;
  }
  return settings;
}

/// Ranks with the same value.
struct Party {
  std::string value;
  std::vector<int> ranks;
};

std::vector<Party> parties(const std::vector<Settings>& all, const std::string& name) {
  std::vector<Party> found;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto at = all[rank].find(name);
    const std::string value = at == all[rank].end() ? "(nothing)" : at->second.value;
    auto party = std::find_if(found.begin(), found.end(), [&](const Party& p) { return p.value == value; });
    if (party == found.end()) party = found.insert(found.end(), {value, {}});
    party->ranks.push_back(static_cast<int>(rank));
  }
  return found;
}

/// Names the ranks and their value: "rank 3 on host2 has --lr 0.2".
std::string who_has(const MpiGroup& group, const Party& party, const std::string& name) {
  const std::string who = rank_names(party.ranks, [&](int rank) { return group.host_of(Rank{rank}); });
  return who + (party.ranks.size() == 1 ? " has " : " have ") + echo(name) + " " + echo(party.value, longest_value);
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
    ending += echo(majority->value, longest_value);
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

std::string to_text(const std::vector<Term>& settings) {
  std::string text;
  for (const auto& [name, value, is_harmless] : settings)
    text += name + (is_harmless ? after_harmless_name : after_name) + value + after_value;
  return text;
}

std::string require_equal_texts(const MpiGroup& group, const std::vector<std::string>& texts) {
  if (std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end()) return {};
  std::vector<Settings> all;
  std::map<std::string, bool> is_harmless;  // by name; the strictest rank decides
  for (const std::string& text : texts) {
    all.push_back(settings_from(text));
    for (const auto& [name, setting] : all.back()) {
      const auto known = is_harmless.emplace(name, setting.is_harmless).first;
      known->second = known->second && setting.is_harmless;
    }
  }
  std::string errors;
  std::string warnings;
  std::set<int> odd;
  std::set<int> harmless;
  for (const auto& [name, may_differ] : is_harmless) {
    std::vector<Party> found = parties(all, name);
    if (found.size() == 1) continue;
    std::string& message = may_differ ? warnings : errors;
    message += (message.empty() ? "" : "; ") + complaint(group, std::move(found), name, may_differ ? harmless : odd);
  }
  if (errors.empty()) return warnings;
  throw Error(ErrorCode::mismatch, errors, {.peers = std::vector<int>(odd.begin(), odd.end())}).on_every_rank();
}

std::string require_equal(const MpiGroup& group, const std::vector<Term>& mine) {
  return require_equal_texts(group, all_gather_strings(group, to_text(mine)));
}

}  // namespace lockstep
