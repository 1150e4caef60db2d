// SPDX-License-Identifier: Apache-2.0
// Tests the simulation of cache lines, and what it is for: all-reduces on a node of many cores, by cache and not.
#include "collectives/proof/cache_lines.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/node_operation.hpp"
#include "collectives/trials.hpp"
#include "platform/machine/placement.hpp"

namespace lockstep::collectives {
namespace {

/// Returns the time until all ranks have read one line of rank 0.
double seconds_to_read_one_line(int ranks, const NodeModel& model) {
  std::vector<Plan> plans(static_cast<std::size_t>(ranks));
  plans.front().steps = {Publish{0}};
  for (int rank = 1; rank < ranks; ++rank) plans[static_cast<std::size_t>(rank)].steps = {Await{{0}, 0}};
  return node_seconds(plans, 4, 0, model);
}

TEST(CacheLines, GoToOneReaderAtATime) {
  const NodeModel model;
  const double two = seconds_to_read_one_line(2, model);
  EXPECT_DOUBLE_EQ(two, model.step_seconds + model.near_turn_seconds + model.near_seconds);
  EXPECT_NEAR(seconds_to_read_one_line(8, model) - two, 6 * model.near_turn_seconds, 1e-15);
  const double of_a_socket = seconds_to_read_one_line(64, model);
  EXPECT_NEAR(of_a_socket - model.step_seconds,
              7 * model.near_turn_seconds + 56 * model.far_turn_seconds + model.far_seconds, 1e-15);
  EXPECT_GT(seconds_to_read_one_line(128, model), of_a_socket + 63 * model.far_turn_seconds);
}

/// Returns the time of a rank that copies `bytes` of another one's memory, which lies on core 0.
double seconds_to_copy(int core, std::int64_t bytes, std::int64_t in_use, const NodeModel& model = {}) {
  std::vector<Plan> plans(static_cast<std::size_t>(core) + 1);
  const Range range{Memory::output, 0, bytes};
  plans.back().steps = {Combine{{{self, range}}, {{0, range}}}};
  return node_seconds(plans, 1, in_use, model);
}

TEST(CacheLines, WaitForTheLinksTheyGoOver) {
  constexpr std::int64_t bytes = 64 << 20;
  const NodeModel model;
  const double added = bytes / model.add_bytes_per_second;
  const auto pure = [&](int core, std::int64_t in_use) { return seconds_to_copy(core, bytes, in_use) - added; };
  EXPECT_NEAR(pure(1, 0) * model.near_bytes_per_second / bytes, 1, 0.2);
  // A core alone cannot ask for as many lines as a link carries.
  EXPECT_NEAR(pure(8, 0) * 64 * model.lines_in_flight / model.far_seconds / bytes, 1, 0.2);
  EXPECT_NEAR(pure(64, 0) * 64 * model.lines_in_flight / model.remote_seconds / bytes, 1, 0.2);
  NodeModel narrow = model;
  narrow.cache_bytes_per_second = 1e9;
  EXPECT_NEAR((seconds_to_copy(8, bytes, 0, narrow) - added) * 1e9 / bytes, 1, 0.1);
  narrow = model;
  narrow.memory_bytes_per_second = 1e9;
  EXPECT_NEAR((seconds_to_copy(1, bytes, std::int64_t{1} << 40, narrow) - added) * 1e9 / bytes, 1, 0.1);
  EXPECT_DOUBLE_EQ(seconds_to_copy(1, bytes, 0, narrow), seconds_to_copy(1, bytes, 0)) << "it is in the cache";
}

/// Machines that differ in everything that the times depend on.
std::vector<NodeModel> machines() {
  const NodeModel usual;
  std::vector<NodeModel> all{usual};
  NodeModel slow = usual;
  slow.far_seconds *= 2;
  slow.remote_seconds *= 2;
  slow.far_turn_seconds *= 4;
  all.push_back(slow);
  NodeModel quick = usual;
  quick.far_seconds /= 2;
  quick.remote_seconds /= 2;
  quick.far_turn_seconds /= 2;
  all.push_back(quick);
  NodeModel large_caches = usual;
  large_caches.cores_per_cache = 16;
  large_caches.cache_bytes_per_second = 2 * usual.cache_bytes_per_second;
  all.push_back(large_caches);
  NodeModel mesh = usual;  // a cache for all cores of a socket
  mesh.cores_per_cache = 64;
  mesh.near_seconds = 60e-9;
  mesh.near_turn_seconds = 5e-9;
  mesh.near_bytes_per_second = 12e9;
  all.push_back(mesh);
  return all;
}

/// From so many ranks on they are divided by cache. Large buffers of ranks that all share one cache gain nothing from
/// it.
TEST(ByCache, IsFasterForManyRanksOnAnyMachine) {
  int machine = 0;
  for (const NodeModel& model : machines()) {
    for (const int ranks : {least_ranks_by_cache, 64, 96, 128})
      for (const std::int64_t bytes : {8, 64, 1024, 16384, 262144, 1 << 20})
        for (const Reach reach : {Reach::direct, Reach::staged}) {
          const int ranks_per_cache = ranks_of_a_cache(ranks, model);
          const double most = bytes > 16384 && model.cores_per_cache >= 64 ? 1.1 : 1;
          EXPECT_LT(seconds_on_node(ranks, bytes, reach, ranks_per_cache, model),
                    most * seconds_on_node(ranks, bytes, reach, 0, model))
              << "machine " << machine << ", " << ranks << " ranks, " << bytes << " bytes, reach "
              << static_cast<int>(reach);
        }
    ++machine;
  }
}

}  // namespace
}  // namespace lockstep::collectives
