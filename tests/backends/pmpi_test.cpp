// SPDX-License-Identifier: Apache-2.0
// Compares the MPI calls of lockstep's own algorithms with the simulator's results for the same plans.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/make_agreed.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "backends/pmpi_counters.hpp"
#include "backends/stated_order.hpp"
#include "collectives/proof/simulator.hpp"
#include "collectives/proof/timeline.hpp"
#include "collectives/schedule/schedule.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/algorithms.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;
using collectives::CollectiveDescription;
using collectives::Schedule;

constexpr std::int64_t width = sizeof(float);
constexpr std::int64_t segments[] = {16, 251, 4096};  // unit: elements

std::vector<std::int64_t> counts(int ranks) { return {0, 1, ranks, ranks + 1, 97, 1009, 3001}; }

struct Parameter {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Algorithm algorithm = Algorithm::ring;
};

bool has_parts_in(CollectiveKind o) {
  return o == CollectiveKind::reduce_scatter || o == CollectiveKind::all_to_all || o == CollectiveKind::scatter;
}
bool has_parts_out(CollectiveKind o) {
  return o == CollectiveKind::all_gather || o == CollectiveKind::all_to_all || o == CollectiveKind::gather;
}

/// One rank's buffers for one operation of `count` elements (of each part, if there are parts), not in place.
struct Operands {
  Operands(CollectiveKind kind, Rank me, int ranks, std::int64_t count)
      : in(stated_order::input_of(me.value, has_parts_in(kind) ? count * ranks : count)),
        out(static_cast<std::size_t>(has_parts_out(kind) ? count * ranks : count)) {}

  static Buffer view(std::vector<float>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::float32};
  }
  std::vector<float> in;
  std::vector<float> out;
};

void run(Communicator& c, CollectiveKind kind, Operands& operands) {
  const Buffer in = Operands::view(operands.in);
  const Buffer out = Operands::view(operands.out);
  switch (kind) {
    case CollectiveKind::all_reduce: return c.all_reduce(in, out, ReduceOp::sum).wait();
    case CollectiveKind::broadcast: return c.broadcast(in, {c.size() - 1}).wait();
    case CollectiveKind::all_gather: return c.all_gather(in, out).wait();
    case CollectiveKind::reduce_scatter: return c.reduce_scatter(in, out, ReduceOp::sum).wait();
    case CollectiveKind::reduce: return c.reduce(in, out, ReduceOp::sum, {c.size() - 1}).wait();
    case CollectiveKind::all_to_all: return c.all_to_all(in, out).wait();
    case CollectiveKind::gather: return c.gather(in, out, {c.size() - 1}).wait();
    case CollectiveKind::scatter: return c.scatter(in, out, {c.size() - 1}).wait();
    case CollectiveKind::scan: return c.scan(in, out, ReduceOp::sum).wait();
    case CollectiveKind::exclusive_scan: return c.exclusive_scan(in, out, ReduceOp::sum).wait();
    case CollectiveKind::barrier: return c.barrier().wait();
    case CollectiveKind::send:
    case CollectiveKind::recv:
    case CollectiveKind::all_gather_v:  // tested in schedule_test and operations_test
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::all_to_all_v: break;
  }
}

/// Returns each rank's schedule for what `run` does.
std::vector<Schedule> schedules(const Parameter& p, int ranks, std::int64_t count, std::int64_t segment) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(make_schedule({rank},
                                {.kind = p.kind,
                                 .ranks = ranks,
                                 .count = {p.kind == CollectiveKind::barrier ? 0 : count},
                                 .root = {ranks - 1},
                                 .own = {.leaves = 1, .in_place = false}},
                                p.algorithm, {segment}));
  }
  return all;
}

/// Returns every rank's plan of one block.
std::vector<collectives::Plan> plans_of(const std::vector<Schedule>& schedules, std::int64_t block) {
  std::vector<collectives::Plan> plans;
  plans.reserve(schedules.size());
  for (const Schedule& schedule : schedules) plans.push_back(schedule.plan(block));
  return plans;
}

/// Returns the simulator's number of messages from and to one rank, over all blocks.
pmpi::Counters simulated_messages(const std::vector<Schedule>& schedules, Rank me) {
  pmpi::Counters expected;
  for (std::int64_t block = 0; block < schedules[0].size(); ++block) {
    const auto plans = plans_of(schedules, block);
    const collectives::Timeline timeline = collectives::run(plans, width, {});
    EXPECT_TRUE(timeline.blocked.empty());
    for (const collectives::TimelineEvent& event : timeline.events) {
      if (event.peer < 0) continue;
      if (event.peer == me.value) ++expected.messages_received;
      if (event.rank != me.value) continue;
      const auto& step = plans[static_cast<std::size_t>(event.rank)].steps[static_cast<std::size_t>(event.step)];
      ++expected.messages_sent;
      expected.bytes_sent += std::get<collectives::Send>(step).from.count * width;
    }
  }
  return expected;
}

class MpiPlanOnTheWire : public testing::TestWithParam<Parameter> {
 protected:
  /// Calls body(communicator, segment) for communicators of every segment length.
  template <typename Body>
  void with_communicators(const Body& body) {
    for (const std::int64_t segment : segments) {
      collectives::Selection selection =
          collectives::forced({.algorithm = GetParam().algorithm, .segment = {segment * width}, .blocks_in_flight = 3});
      selection.shared_memory = false;  // with shared memory, tree-order would send no messages
      const auto c = plan_on(world_.group(), progress_, {.selection = selection});
      body(*c, segment);
      c->close();
    }
  }
  void TearDown() override { world_.close(); }

  World world_;
  Progress progress_{{.spins_before_yield = 0}};
};

TEST_P(MpiPlanOnTheWire, SendsTheSimulatorsMessagesAndCallsNoCollectiveOfMpi) {
  with_communicators([&](Communicator& c, std::int64_t segment) {
    for (const std::int64_t count : counts(c.size())) {
      SCOPED_TRACE("count " + std::to_string(count) + ", segment " + std::to_string(segment));
      Operands operands(GetParam().kind, c.rank(), c.size(), count);
      pmpi::reset();
      run(c, GetParam().kind, operands);
      const pmpi::Counters seen = pmpi::counters();
      const pmpi::Counters expected = simulated_messages(schedules(GetParam(), c.size(), count, segment), c.rank());
      EXPECT_EQ(seen.collectives, 0);
      EXPECT_EQ(seen.messages_sent, expected.messages_sent);
      EXPECT_EQ(seen.bytes_sent, expected.bytes_sent);
      EXPECT_EQ(seen.messages_received, expected.messages_received);
    }
  });
}

/// Expects the sums of one rank's block, in the simulator's order, of all ranks' inputs.
void expect_folds(const collectives::Simulation& simulation, const Schedule& schedule, std::int64_t block, Rank me,
                  const std::vector<std::vector<float>>& inputs, const std::vector<float>& result, bool scattered) {
  const collectives::BlockView view = schedule.view(block);
  const std::int64_t own_part = scattered ? me.value * view.part_count : 0;
  for (const auto& piece : simulation.results[static_cast<std::size_t>(me.value)]) {
    for (std::int64_t i = piece.offset; i < piece.offset + piece.count; ++i) {
      const auto at = static_cast<std::size_t>(view(own_part + i));
      const float expected = simulation.expressions.fold<float>(
          piece.value, -0.0F, [&](int leaf) { return inputs[static_cast<std::size_t>(leaf)][at]; },
          [](float a, float b) { return a + b; });
      const float actual = result[static_cast<std::size_t>(view(i))];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(actual), std::bit_cast<std::uint32_t>(expected))
          << "element " << at << ": " << actual << " is not " << expected << ", added as "
          << simulation.expressions.to_string(piece.value);
    }
  }
}

class MpiPlanSums : public MpiPlanOnTheWire {};

TEST_P(MpiPlanSums, AreBitEqualToTheSimulatorsOrder) {
  const Parameter p = GetParam();
  with_communicators([&](Communicator& c, std::int64_t segment) {
    for (const std::int64_t count : counts(c.size())) {
      SCOPED_TRACE("count " + std::to_string(count) + ", segment " + std::to_string(segment));
      Operands operands(p.kind, c.rank(), c.size(), count);
      run(c, p.kind, operands);
      std::vector<std::vector<float>> inputs;
      for (int rank = 0; rank < c.size(); ++rank) {
        inputs.push_back(Operands(p.kind, {rank}, c.size(), count).in);
      }
      const auto all = schedules(p, c.size(), count, segment);
      for (std::int64_t block = 0; block < all[0].size(); ++block) {
        const auto simulation = collectives::simulate(
            plans_of(all, block), {.kind = p.kind, .count = {all[0].block(block).count}, .root = {c.size() - 1}});
        ASSERT_FALSE(simulation.fault.has_value()) << simulation.fault->text;
        expect_folds(simulation, all[0], block, c.rank(), inputs, operands.out,
                     p.kind == CollectiveKind::reduce_scatter);
      }
    }
  });
}

/// This proves that the counters work; without it the tests above could not fail.
TEST(PmpiCounters, SeeTheMpiLibrarysCollectives) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_native(world.group(), progress);
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::reduce, CollectiveKind::all_to_all,
                                    CollectiveKind::gather, CollectiveKind::scatter, CollectiveKind::barrier}) {
    Operands operands(kind, c->rank(), c->size(), 10);
    pmpi::reset();
    run(*c, kind, operands);
    EXPECT_EQ(pmpi::counters().collectives, 1) << name(kind);
  }
  c->close();
  world.close();
}

std::vector<Parameter> all_reduces() {
  std::vector<Parameter> all;
  for (const Algorithm algorithm : testing_support::message_algorithms)
    all.push_back({CollectiveKind::all_reduce, algorithm});
  return all;
}
constexpr Parameter others[] = {{CollectiveKind::broadcast}, {CollectiveKind::all_gather}, {CollectiveKind::all_to_all},
                                {CollectiveKind::gather},    {CollectiveKind::scatter},    {CollectiveKind::barrier}};
constexpr Parameter other_sums[] = {{CollectiveKind::reduce_scatter}, {CollectiveKind::reduce}};

std::string parameter_name(const testing::TestParamInfo<Parameter>& info) {
  std::string text(name(info.param.kind));
  if (info.param.kind == CollectiveKind::all_reduce) text += "_" + std::string(name(info.param.algorithm));
  for (char& c : text) c = c == '-' ? '_' : c;
  return text;
}

INSTANTIATE_TEST_SUITE_P(AllReduce, MpiPlanOnTheWire, testing::ValuesIn(all_reduces()), parameter_name);
INSTANTIATE_TEST_SUITE_P(Others, MpiPlanOnTheWire, testing::ValuesIn(others), parameter_name);
INSTANTIATE_TEST_SUITE_P(OtherSums, MpiPlanOnTheWire, testing::ValuesIn(other_sums), parameter_name);
INSTANTIATE_TEST_SUITE_P(AllReduce, MpiPlanSums, testing::ValuesIn(all_reduces()), parameter_name);
INSTANTIATE_TEST_SUITE_P(OtherSums, MpiPlanSums, testing::ValuesIn(other_sums), parameter_name);

}  // namespace
}  // namespace lockstep::backends
