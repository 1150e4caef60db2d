// SPDX-License-Identifier: Apache-2.0
#include "lockstep/platform/world.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "lockstep/platform/bootstrap.hpp"
#include "lockstep/platform/launch.hpp"
#include "platform/mpi.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> level_names = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                                         "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
constexpr std::array<int, 4> levels = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                       MPI_THREAD_MULTIPLE};

std::string_view level_name(int provided) {
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] == provided) return level_names[i];
  }
  return "an unknown level";
}

std::optional<Error> check_thread_level(ThreadLevel wanted, int provided) {
  const auto index = static_cast<std::size_t>(wanted);
  if (provided >= levels[index]) return std::nullopt;
  return Error(ErrorCode::unsupported, "this program needs the thread level " + std::string(level_names[index]) +
                                           ", but MPI was initialised with " + std::string(level_name(provided)) +
                                           ": use an MPI library built for it, or, where the program initialises MPI "
                                           "itself, ask for that level there");
}

std::optional<Error> check_launch() {
  int size = 0;
  LOCKSTEP_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  const auto mistake = launch_mistake(read_environment(), size);
  if (!mistake) return std::nullopt;
  return Error(ErrorCode::mismatch, *mistake);
}

/// @return whether MPI was initialised here, and so has to be finalised here
bool start_mpi(ThreadLevel wanted) {
  int already = 0;
  LOCKSTEP_MPI(MPI_Initialized(&already));
  int provided = MPI_THREAD_SINGLE;
  if (already != 0) {
    LOCKSTEP_MPI(MPI_Query_thread(&provided));
  } else {
    LOCKSTEP_MPI(MPI_Init_thread(nullptr, nullptr, levels[static_cast<std::size_t>(wanted)], &provided));
  }
  LOCKSTEP_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  LOCKSTEP_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));

  auto error = check_thread_level(wanted, provided);
  if (!error) error = check_launch();
  if (error) {
    // Both verdicts are the same on every rank, so all of them finalise.
    if (already == 0) LOCKSTEP_MPI(MPI_Finalize());
    throw Error(*error);
  }
  return already == 0;
}

MpiGroup all_ranks() {
  auto handle = std::make_unique<MpiGroup::Handle>();
  LOCKSTEP_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &handle->communicator));
  return MpiGroup(std::move(handle));
}

MpiGroup ranks_that_share_memory(const MpiGroup& all) {
  auto handle = std::make_unique<MpiGroup::Handle>();
  LOCKSTEP_MPI(MPI_Comm_split_type(communicator(all), MPI_COMM_TYPE_SHARED, all.rank().value, MPI_INFO_NULL,
                                   &handle->communicator));
  return MpiGroup(std::move(handle));
}

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> text{};
  int length = 0;
  LOCKSTEP_MPI(MPI_Get_processor_name(text.data(), &length));
  return {text.data(), static_cast<std::size_t>(length)};
}

ClusterShape shape_by_leaders(const MpiGroup& all, const MpiGroup& node) {
  // The global rank of a node's first rank identifies the node.
  const auto leader = all_gather_numbers(node, all.rank().value).front();
  const auto leaders = all_gather_numbers(all, leader);
  return number_nodes(std::vector<int>(leaders.begin(), leaders.end()));
}

}  // namespace

ClusterShape discover_shape(const MpiGroup& group) {
  MpiGroup node = ranks_that_share_memory(group);
  ClusterShape shape = shape_by_leaders(group, node);
  node.close();
  return shape;
}

ThreadLevel provided_thread_level() {
  int provided = MPI_THREAD_SINGLE;
  LOCKSTEP_MPI(MPI_Query_thread(&provided));
  const auto level = std::find(levels.rbegin(), levels.rend(), provided);
  return static_cast<ThreadLevel>(level == levels.rend() ? 0 : levels.rend() - level - 1);
}

World::World(const WorldOptions& options)
    : finalizes_(start_mpi(options.thread_level)),
      group_(all_ranks()),
      node_group_(ranks_that_share_memory(group_)),
      hosts_(all_gather_strings(group_, host_name())),
      shape_(shape_by_leaders(group_, node_group_)),
      place_(place_of(shape_, group_.rank())) {}

World::~World() {
  if (!group_.closed() && std::uncaught_exceptions() == 0) {
    std::fprintf(stderr, "lockstep: the World (rank %d of %d) was destroyed without close(); MPI is not finalised\n",
                 rank().value, size());
  }
}

void World::close() {
  if (group_.closed()) return;
  node_group_.close();
  group_.close();
  if (finalizes_) LOCKSTEP_MPI(MPI_Finalize());
}

void World::abort(int exit_code) const {
  std::fflush(nullptr);
  // MPICH's launcher throws away what it has not read when a job is aborted, and with it the reason.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);  // where MPI_Abort returns, against the standard
}

}  // namespace lockstep
