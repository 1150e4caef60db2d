// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/bootstrap.hpp"

#include <functional>
#include <limits>
#include <numeric>

#include "platform/mpi/mpi.hpp"
#include "platform/mpi/portable_error.hpp"

namespace lockstep {
namespace {

/// Where each rank's part of a gathered text begins; one more for the end. The int counts of MPI bound the total.
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

std::vector<std::string> cut(const std::string& text, const std::vector<int>& begins) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    parts.push_back(
        text.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(begins[i + 1] - begins[i])));
  }
  return parts;
}

}  // namespace

std::vector<std::int64_t> all_gather_numbers(const MpiGroup& group, std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  LOCKSTEP_MPI(MPI_Allgather(&mine, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, communicator(group)));
  return all;
}

std::vector<std::string> all_gather_strings(const MpiGroup& group, std::string_view mine) {
  const auto lengths = all_gather_numbers(group, static_cast<std::int64_t>(mine.size()));
  const auto begins = offsets(lengths);
  const std::vector<int> counts(lengths.begin(), lengths.end());
  std::string all(static_cast<std::size_t>(begins.back()), '\0');
  LOCKSTEP_MPI(MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(), counts.data(),
                              begins.data(), MPI_CHAR, communicator(group)));
  return cut(all, begins);
}

std::vector<std::string> gather_strings(const MpiGroup& group, std::string_view mine, Rank root) {
  const auto lengths = all_gather_numbers(group, static_cast<std::int64_t>(mine.size()));
  const auto begins = offsets(lengths);
  const std::vector<int> counts(lengths.begin(), lengths.end());
  const bool here = group.rank() == root;
  std::string all(here ? static_cast<std::size_t>(begins.back()) : 0, '\0');
  LOCKSTEP_MPI(MPI_Gatherv(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(), counts.data(),
                           begins.data(), MPI_CHAR, root.value, communicator(group)));
  return here ? cut(all, begins) : std::vector<std::string>{};
}

std::string broadcast_string(const MpiGroup& group, std::string_view value, Rank root) {
  auto length = static_cast<std::int64_t>(value.size());
  LOCKSTEP_MPI(MPI_Bcast(&length, 1, MPI_INT64_T, root.value, communicator(group)));
  offsets({length});  // refuses on every rank what MPI could not count
  std::string text = group.rank() == root ? std::string(value) : std::string(static_cast<std::size_t>(length), '\0');
  LOCKSTEP_MPI(MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, root.value, communicator(group)));
  return text;
}

void barrier(const MpiGroup& group) { LOCKSTEP_MPI(MPI_Barrier(communicator(group))); }

void agree(const MpiGroup& group, const std::optional<Error>& mine) {
  const auto verdicts = all_gather_numbers(group, mine ? 1 : 0);
  std::vector<int> at_fault;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (verdicts[static_cast<std::size_t>(rank)] != 0) at_fault.push_back(rank);
  }
  if (at_fault.empty()) return;
  const Rank first{at_fault.front()};
  const std::string text = group.rank() == first ? to_text(*mine) : std::string();
  const Error error =
      error_from_text(broadcast_string(group, text, first)).reported_by(first.value, group.host_of(first));
  ErrorContext context = error.context();
  context.peers = std::move(at_fault);
  throw Error(error.code(), error.message(), std::move(context), error.location()).on_every_rank();
}

}  // namespace lockstep
