// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/bootstrap.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "platform/mpi/mpi.hpp"
#include "platform/mpi/wait_monitor.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

/// Returns the beginning of each rank's part of a gathered text, and the end of the last part. MPI's int counts limit
/// the total.
std::vector<int> offsets(const std::vector<std::int64_t>& lengths) {
  const auto total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (total > std::numeric_limits<int>::max()) {
    throw Error(ErrorCode::invalid_argument,
                "the strings to gather have " + std::to_string(total) + " bytes in all; the limit is 2 GiB");
  }
  std::vector<int> begins(lengths.size() + 1, 0);
  std::transform_inclusive_scan(lengths.begin(), lengths.end(), begins.begin() + 1, std::plus<>(),
                                [](std::int64_t length) { return static_cast<int>(length); });
  return begins;
}

/// The buffers of a gather of one string per rank.
struct Strings {
  Strings(const MpiGroup& group, std::string_view own) : mine(own) {
    const auto lengths = all_gather_numbers(group, static_cast<std::int64_t>(own.size()));
    begins = offsets(lengths);
    counts.assign(lengths.begin(), lengths.end());
  }
  char* make_room() {
    all.resize(static_cast<std::size_t>(begins.back()));
    return all.data();
  }
  [[nodiscard]] std::vector<std::string> cut() const {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < counts.size(); ++i)
      parts.push_back(all.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(counts[i])));
    return parts;
  }

  std::string mine;
  std::vector<int> counts;
  std::vector<int> begins;
  std::string all;
};

/// The group's communicator, if its ranks are in step. @throws the error of an earlier failed step of the group
MPI_Comm usable(const MpiGroup& group) {
  if (const auto& failure = group.handle().failure) throw Error(*failure);
  return communicator(group);
}

}  // namespace

void await(const MpiGroup& group, MPI_Request request, std::shared_ptr<void> buffers) {
  const MpiGroup::Handle& handle = group.handle();
  if (handle.monitor == nullptr) {
    LOCKSTEP_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return;
  }
  try {
    handle.monitor->wait(request, {handle.number, handle.original_ranks, handle.deadline});
  } catch (const Error& error) {
    static auto& kept = *std::make_unique<std::deque<std::shared_ptr<void>>>().release();
    kept.push_back(std::move(buffers));
    handle.failure = error.reported_by(group.rank().value, group.host());
    throw Error(*handle.failure);
  }
}

std::vector<std::int64_t> all_gather_numbers(const MpiGroup& group, std::int64_t mine) {
  const auto buffers = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(group.size()) + 1);
  buffers->back() = mine;
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(
      MPI_Iallgather(&buffers->back(), 1, MPI_INT64_T, buffers->data(), 1, MPI_INT64_T, usable(group), &request));
  await(group, request, buffers);
  buffers->pop_back();
  return std::move(*buffers);
}

std::vector<std::string> all_gather_strings(const MpiGroup& group, std::string_view mine) {
  const auto buffers = std::make_shared<Strings>(group, mine);
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Iallgatherv(buffers->mine.data(), static_cast<int>(mine.size()), MPI_CHAR, buffers->make_room(),
                               buffers->counts.data(), buffers->begins.data(), MPI_CHAR, usable(group), &request));
  await(group, request, buffers);
  return buffers->cut();
}

std::string first_reason(const MpiGroup& group, std::string_view mine) {
  for (std::string& reason : all_gather_strings(group, mine))
    if (!reason.empty()) return std::move(reason);
  return {};
}

std::vector<std::string> gather_strings(const MpiGroup& group, std::string_view mine, Rank root) {
  const bool here = group.rank() == root;
  const auto buffers = std::make_shared<Strings>(group, mine);
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Igatherv(buffers->mine.data(), static_cast<int>(mine.size()), MPI_CHAR,
                            here ? buffers->make_room() : nullptr, buffers->counts.data(), buffers->begins.data(),
                            MPI_CHAR, root.value, usable(group), &request));
  await(group, request, buffers);
  return here ? buffers->cut() : std::vector<std::string>{};
}

std::string broadcast_string(const MpiGroup& group, std::string_view value, Rank root) {
  struct Buffers {
    std::int64_t length;
    std::string text;
  };
  const auto buffers = std::make_shared<Buffers>();
  buffers->length = static_cast<std::int64_t>(value.size());
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Ibcast(&buffers->length, 1, MPI_INT64_T, root.value, usable(group), &request));
  await(group, request, buffers);
  offsets({buffers->length});  // refuses on every rank a length that MPI cannot count
  buffers->text = value;
  buffers->text.resize(static_cast<std::size_t>(buffers->length));
  LOCKSTEP_MPI(MPI_Ibcast(buffers->text.data(), static_cast<int>(buffers->length), MPI_CHAR, root.value, usable(group),
                          &request));
  await(group, request, buffers);
  return std::move(buffers->text);
}

void barrier(const MpiGroup& group) {
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Ibarrier(usable(group), &request));
  await(group, request);
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

void throw_first_of(const MpiGroup& group, const std::vector<std::optional<Error>>& of_ranks) {
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

void agree(const MpiGroup& group, const std::optional<Error>& mine) {
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
