// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/bootstrap.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "platform/ranks/rank_link.hpp"

namespace lockstep {

using nlohmann::json;

std::vector<std::string> gather_strings(const RankSet& group, std::string_view mine, Rank root) {
  return group.link().gather(mine, root);
}

std::string broadcast_string(const RankSet& group, std::string_view value, Rank root) {
  return group.link().broadcast(value, root);
}

std::vector<std::int64_t> all_gather_numbers(const RankSet& group, std::int64_t mine) {
  return group.link().all_gather(mine);
}

void barrier(const RankSet& group) { group.link().barrier(); }

std::string first_reason(const RankSet& group, std::string_view mine) {
  for (std::string& reason : group.exchange(mine))
    if (!reason.empty()) return std::move(reason);
  return {};
}

std::string to_text(const Error& error) {
  const ErrorContext& c = error.context();
  const auto number = [](const auto& value) { return value ? json(*value) : json(); };
  const json fields = {error.code(),   error.message(), c.operation, c.label,
                       number(c.step), number(c.rank),  c.host,      number(c.bytes)};
  return fields.dump(-1, ' ', false, json::error_handler_t::replace);
}

Error error_from_text(const std::string& text) {
  const json fields = json::parse(text);
  ErrorContext context{.operation = fields.at(2), .label = fields.at(3), .host = fields.at(6)};
  if (!fields.at(4).is_null()) context.step = fields.at(4).get<std::int64_t>();
  if (!fields.at(5).is_null()) context.rank = fields.at(5).get<int>();
  if (!fields.at(7).is_null()) context.bytes = fields.at(7).get<std::int64_t>();
  return {fields.at(0).get<ErrorCode>(), fields.at(1).get<std::string>(), std::move(context)};
}

void throw_first_of(const RankSet& group, const std::vector<std::optional<Error>>& of_ranks) {
  std::vector<int> at_fault;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
    if (of_ranks[rank]) at_fault.push_back(static_cast<int>(rank));
  if (at_fault.empty()) return;
  const Rank first{at_fault.front()};
  const Error error = of_ranks[static_cast<std::size_t>(first.value)]->reported_by(first.value, group.host_of(first));
  ErrorContext context = error.context();
  context.peers = std::move(at_fault);
  throw Error(error.code(), error.message(), std::move(context), error.location()).on_every_rank();
}

void agree(const RankSet& group, const std::optional<Error>& mine) {
  const auto verdicts = all_gather_numbers(group, mine ? 1 : 0);
  const auto first = std::find(verdicts.begin(), verdicts.end(), 1);
  if (first == verdicts.end()) return;
  const Rank root{static_cast<int>(first - verdicts.begin())};
  const Error error = error_from_text(broadcast_string(group, group.rank() == root ? to_text(*mine) : "", root));
  std::vector<std::optional<Error>> errors(verdicts.size());
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    if (verdicts[rank] != 0) errors[rank] = error;
  throw_first_of(group, errors);
}

}  // namespace lockstep
