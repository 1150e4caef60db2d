// SPDX-License-Identifier: Apache-2.0
// Counts the collective calls of MPI at start-up. One exchange, of two calls, compares everything that must be equal in
// a group; a further communicator compares nothing. The other calls are steps that depend on each other: which ranks
// share a node, its memory, and where there are several hosts, the addresses of sockets and whether all could connect.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "backends/on_nodes.hpp"
#include "backends/pmpi_counters.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::ddp {
namespace {

struct Calls {
  std::int64_t collectives = 0;
  std::int64_t communicators = 0;  ///< made by MPI
  friend bool operator==(const Calls&, const Calls&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Calls& calls) {
    return out << calls.collectives << " collectives and " << calls.communicators << " new communicators of MPI";
  }
};

template <typename Step>
Calls calls_of(const Step& step) {
  pmpi::reset();
  step();
  const pmpi::Counters counters = pmpi::counters();
  return {counters.collectives, counters.communicators};
}

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// What a group costs with its first communicator, and a further communicator.
struct Cost {
  Calls group;
  Calls further;
};

Cost cost_of(const World& world, const std::string& algorithm, bool is_rank_a_node) {
  const GroupOptions options{.algorithm = algorithm};
  const std::ptrdiff_t threads = threads_of_this_process();
  std::optional<ProcessGroup> group;
  Cost cost;
  cost.group = calls_of([&] {
    if (is_rank_a_node) {
      group.emplace(backends::on_nodes(world, 1), options);
    } else {
      group.emplace(world, options);
    }
  });
  cost.further = calls_of([&] { (void)group->control(); });
  std::unique_ptr<Communicator> another;
  EXPECT_EQ(calls_of([&] { another = group->new_communicator(); }), cost.further);
  float one = 1;
  const Buffer value{&one, {1}};
  another->all_reduce(value, value, ReduceOp::sum).wait();
  EXPECT_EQ(one, world.size());
  EXPECT_EQ(threads_of_this_process(), threads) << "groups work where a program must have one thread only";
  another->close();
  group->close();
  return cost;
}

/// Before there was one agreement it was 44 calls for a group with "auto", 17 with "ring", 16 with "mpi" and, where
/// each rank is a node, 22; and for a further communicator 20, 12, 11 and 13.
TEST(StartUp, ComparesAGroupOnceAndACommunicatorNever) {
  World world;
  // The ranks' memory is shared by the first group, and used again by the others.
  const Cost automatic = cost_of(world, "auto", false);
  EXPECT_EQ(automatic.group, (Calls{24, 3}));
  EXPECT_EQ(automatic.further, (Calls{10, 2}));
  const Cost ring = cost_of(world, "ring", false);
  EXPECT_EQ(ring.group, (Calls{9, 3}));
  EXPECT_EQ(ring.further, (Calls{6, 2}));
  const Cost mpi = cost_of(world, "mpi", false);
  EXPECT_EQ(mpi.group, (Calls{10, 4}));
  EXPECT_EQ(mpi.further, (Calls{7, 3}));
  const Cost nodes = cost_of(world, "auto", true);
  EXPECT_LE(nodes.group.collectives, 10) << "less with RDMA, where there are no sockets";
  EXPECT_LE(nodes.further.collectives, 8);
  EXPECT_EQ(nodes.group.communicators, 4);
  EXPECT_EQ(nodes.further.communicators, 3);
  world.close();
}

TEST(StartUp, OfAWorldFindsHostsAndNodes) {
  std::optional<World> world;
  const Calls calls = calls_of([&] { world.emplace(); });
  EXPECT_EQ(calls, (Calls{8, 4}));
  world->close();
}

}  // namespace
}  // namespace lockstep::ddp
