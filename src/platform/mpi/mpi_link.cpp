// SPDX-License-Identifier: Apache-2.0
// This file implements the exchanges of ranks over an MPI communicator, and the communicators that are made from it.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/ulfm.hpp"
#include "platform/mpi/wait_monitor.hpp"

namespace lockstep {
namespace {

std::vector<int> some_of(const std::vector<int>& all, const std::vector<int>& at) {
  std::vector<int> some;
  some.reserve(at.size());
  for (const int index : at) some.push_back(all[static_cast<std::size_t>(index)]);
  return some;
}

/// Returns the number of the next set that is made of this link's ranks. All ranks make sets in the same order.
std::uint64_t number_of_descendant(MpiLink& link) {
  Fnv1a number;
  number.add(static_cast<std::int64_t>(link.number));
  number.add(++link.descendants);
  return number.value();
}

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
  /// @param lengths  of the strings, by rank
  /// @throws Error{invalid_argument} before it copies anything
  Strings(std::string_view own, const std::vector<std::int64_t>& lengths)
      : begins(offsets(lengths)), counts(lengths.begin(), lengths.end()), mine(own) {}
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

  std::vector<int> begins;
  std::vector<int> counts;
  std::string mine;
  std::string all;
};

}  // namespace

bool mpi_has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> text{};
  int length = 0;
  LOCKSTEP_MPI(MPI_Get_processor_name(text.data(), &length));
  return echo({text.data(), static_cast<std::size_t>(length)}, text.size());
}

void throw_mpi_error(int code, std::string_view call, ErrorContext context, SourceLocation location) {
  std::string message = mpi_error_text(code) + " in " + std::string(call);
  if (is_revoked(code))
    throw Error(ErrorCode::transport, std::move(message), std::move(context), location).as_consequence();
  if (is_of_death(code)) {
    const std::vector<int> dead = dead_ranks(MPI_COMM_WORLD);
    if (!dead.empty())
      message = rank_names(dead, [](int) { return std::string(); }) + " of the job " +
                (dead.size() == 1 ? "has" : "have") + " ended: " + message;
    if (context.peers.empty()) context.peers = dead;
  }
  throw Error(ErrorCode::transport, std::move(message), std::move(context), location);
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  LOCKSTEP_MPI(MPI_Get_library_version(text.data(), &length));
  // Libraries append their build and its configuration, after a comma or on further lines.
  const std::string_view all = text.data();
  std::string version(all.substr(0, all.find_first_of(",\n")));
  constexpr std::string_view of_mpich = " Version:\t";
  if (const std::size_t at = version.find(of_mpich); at != std::string::npos) version.replace(at, of_mpich.size(), " ");
  return version;
}

std::vector<int> ranks_in(MPI_Comm whole, MPI_Comm part) {
  MPI_Group some = MPI_GROUP_NULL;
  LOCKSTEP_MPI(MPI_Comm_group(part, &some));
  return ranks_of_group_in(whole, some);
}

std::vector<int> ranks_of_group_in(MPI_Comm whole, MPI_Group part) {
  MPI_Group all = MPI_GROUP_NULL;
  LOCKSTEP_MPI(MPI_Comm_group(whole, &all));
  int size = 0;
  LOCKSTEP_MPI(MPI_Group_size(part, &size));
  std::vector<int> here(static_cast<std::size_t>(size));
  std::iota(here.begin(), here.end(), 0);
  std::vector<int> there(here.size());
  LOCKSTEP_MPI(MPI_Group_translate_ranks(part, size, here.data(), all, there.data()));
  LOCKSTEP_MPI(MPI_Group_free(&part));
  LOCKSTEP_MPI(MPI_Group_free(&all));
  return there;
}

MpiLink::MpiLink(MPI_Comm own, std::shared_ptr<const RankSet::Members> hosts_and_shape, const MpiLink* of_ancestor)
    : communicator(own) {
  members = std::move(hosts_and_shape);
  LOCKSTEP_MPI(MPI_Comm_rank(communicator, &rank.value));
  LOCKSTEP_MPI(MPI_Comm_size(communicator, &size));
  if (of_ancestor == nullptr) return;
  messages = of_ancestor->messages;
  node_files = of_ancestor->node_files;
  deadline = of_ancestor->deadline;
  if (of_ancestor->monitor != nullptr) watch(of_ancestor->monitor);
}

void MpiLink::watch(std::shared_ptr<WaitMonitor> by) {
  monitor = std::move(by);
  tasks = monitor;
  monitor->add(communicator);
}

/// @throws the error of an earlier failed step
MPI_Comm MpiLink::usable() const {
  if (failure) throw Error(*failure);
  return communicator;
}

/// Waits until a nonblocking collective call on the communicator completes, for at most the deadline.
/// @param buffers  what the call reads and writes; if it does not complete, they are kept until the program ends
void MpiLink::await(MPI_Request request, std::shared_ptr<void> buffers) {
  if (monitor == nullptr) {
    LOCKSTEP_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return;
  }
  try {
    monitor->wait(request, {number, original_ranks, deadline});
  } catch (const Error& error) {
    static auto& kept = *std::make_unique<std::deque<std::shared_ptr<void>>>().release();
    kept.push_back(std::move(buffers));
    failure = error.reported_by(rank.value, members->hosts[static_cast<std::size_t>(rank.value)]);
    throw Error(*failure);
  }
}

std::vector<std::int64_t> MpiLink::all_gather(std::int64_t mine) {
  const auto buffers = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(size) + 1);
  buffers->back() = mine;
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Iallgather(&buffers->back(), 1, MPI_INT64_T, buffers->data(), 1, MPI_INT64_T, usable(), &request));
  await(request, buffers);
  buffers->pop_back();
  return std::move(*buffers);
}

std::vector<std::string> MpiLink::all_gather(std::string_view mine) {
  const auto buffers = std::make_shared<Strings>(mine, all_gather(static_cast<std::int64_t>(mine.size())));
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Iallgatherv(buffers->mine.data(), static_cast<int>(mine.size()), MPI_CHAR, buffers->make_room(),
                               buffers->counts.data(), buffers->begins.data(), MPI_CHAR, usable(), &request));
  await(request, buffers);
  return buffers->cut();
}

std::vector<std::string> MpiLink::gather(std::string_view mine, Rank root) {
  const bool here = rank == root;
  const auto buffers = std::make_shared<Strings>(mine, all_gather(static_cast<std::int64_t>(mine.size())));
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Igatherv(buffers->mine.data(), static_cast<int>(mine.size()), MPI_CHAR,
                            here ? buffers->make_room() : nullptr, buffers->counts.data(), buffers->begins.data(),
                            MPI_CHAR, root.value, usable(), &request));
  await(request, buffers);
  return here ? buffers->cut() : std::vector<std::string>{};
}

std::string MpiLink::broadcast(std::string_view value, Rank root) {
  struct Buffers {
    std::int64_t length;
    std::string text;
  };
  const auto buffers = std::make_shared<Buffers>();
  buffers->length = static_cast<std::int64_t>(value.size());
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Ibcast(&buffers->length, 1, MPI_INT64_T, root.value, usable(), &request));
  await(request, buffers);
  offsets({buffers->length});  // refuses on every rank a length that MPI cannot count
  buffers->text = value;
  buffers->text.resize(static_cast<std::size_t>(buffers->length));
  LOCKSTEP_MPI(
      MPI_Ibcast(buffers->text.data(), static_cast<int>(buffers->length), MPI_CHAR, root.value, usable(), &request));
  await(request, buffers);
  return std::move(buffers->text);
}

void MpiLink::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  LOCKSTEP_MPI(MPI_Ibarrier(usable(), &request));
  await(request);
}

// MPI's calls that make communicators block. All ranks enter them together, so only a rank that stops within the few
// microseconds of such a call keeps the others waiting; the watchdog reports this. A set without a deadline waits in
// the call itself.

std::unique_ptr<RankSet::Link> MpiLink::dup() {
  const std::uint64_t its_number = number_of_descendant(*this);
  if (monitor != nullptr) barrier();
  const BlockingCall call(monitor, "MPI_Comm_dup");
  MPI_Comm copied = MPI_COMM_NULL;
  LOCKSTEP_MPI(MPI_Comm_dup(communicator, &copied));
  auto copy = std::make_unique<MpiLink>(copied, members, this);
  copy->number = its_number;
  copy->original_ranks = original_ranks;
  return copy;
}

std::unique_ptr<RankSet::Link> MpiLink::split(std::optional<int> color, int key) {
  const std::uint64_t its_number = number_of_descendant(*this);
  if (monitor != nullptr) barrier();
  const BlockingCall call(monitor, "MPI_Comm_split");
  MPI_Comm part = MPI_COMM_NULL;
  LOCKSTEP_MPI(MPI_Comm_split(communicator, color.value_or(MPI_UNDEFINED), key, &part));
  if (part == MPI_COMM_NULL) return nullptr;
  const std::vector<int> ranks = ranks_in(communicator, part);
  auto link = std::make_unique<MpiLink>(part, chosen(*members, ranks), this);
  link->number = its_number;
  if (monitor != nullptr) link->original_ranks = some_of(original_ranks, ranks);
  return link;
}

void MpiLink::close() {
  if (failure) return;
  if (monitor != nullptr) monitor->remove(communicator);
  LOCKSTEP_MPI(MPI_Comm_free(&communicator));
  tasks.reset();
  if (monitor.use_count() == 1) monitor->close();
}

int provided_mpi_level() {
  int provided = MPI_THREAD_SINGLE;
  LOCKSTEP_MPI(MPI_Query_thread(&provided));
  return provided;
}

bool MpiLink::may_change_threads() const { return provided_mpi_level() >= MPI_THREAD_SERIALIZED; }

MpiLink& mpi_link(const RankSet& set) { return dynamic_cast<MpiLink&>(set.link()); }

}  // namespace lockstep
