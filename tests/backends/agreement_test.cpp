// SPDX-License-Identifier: Apache-2.0
// A difference in what must be equal on all ranks gives the same error on every rank, before anything depends on it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "backends/make_agreed.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::backends {
namespace {

struct OptionDifference {
  std::string name;
  std::string text;  ///< the last rank's value
  std::function<std::unique_ptr<Communicator>(const RankSet&, Progress&, bool is_odd)> make;
};

OptionDifference of_plans(const std::string& name, const std::string& text, void (*change)(PlanOptions&)) {
  return {name, text, [change](const RankSet& group, Progress& progress, bool is_odd) {
            PlanOptions options{.selection = collectives::forced({.algorithm = collectives::Algorithm::shared_memory})};
            if (is_odd) change(options);
            return make_agreed(group, progress, {.method = options.selection, .plan = options});
          }};
}

OptionDifference of_choice(const std::string& name, const std::string& text, void (*change)(CommunicatorOptions&)) {
  return {name, text, [change](const RankSet& group, Progress& progress, bool is_odd) {
            CommunicatorOptions options;
            if (is_odd) change(options);
            return make_agreed(group, progress, options);
          }};
}

const OptionDifference option_differences[] = {
    of_plans("PullLimit", "pull limit (bytes) 64", [](PlanOptions& o) { o.node.pull_limit = {64}; }),
    of_plans("Staging", "staging area (bytes) 8192", [](PlanOptions& o) { o.node.staging = {8192}; }),
    of_plans("BlocksInFlight", "7 blocks in flight", [](PlanOptions& o) { o.selection.forced->blocks_in_flight = 7; }),
    of_plans("OperationsInFlight", "operations in flight 2", [](PlanOptions& o) { o.operations_in_flight = 2; }),
    of_plans("Algorithm", "algorithm ring",
             [](PlanOptions& o) { o.selection.forced->algorithm = collectives::Algorithm::ring; }),
    of_choice("AutoOrMpi", "algorithm mpi", [](CommunicatorOptions& o) { o.method = MpiLibrary{}; }),
    of_choice("Tuning", "selection table from a file", [](CommunicatorOptions& o) { o.tuning = "table.json"; }),
    of_choice("Compression", "compression bf16", [](CommunicatorOptions& o) { o.compress = WireFormat::bfloat16; }),
    of_choice("Sockets", "sockets no", [](CommunicatorOptions& o) { o.plan.sockets = Sockets::no; }),
    of_choice("Check", "check of calls yes", [](CommunicatorOptions& o) { o.check = true; }),
};

class Unequal : public testing::TestWithParam<OptionDifference> {};

TEST_P(Unequal, IsNamedOnEveryRank) {
  const OptionDifference& difference = GetParam();
  World world;
  Progress progress({.spins_before_yield = 0});
  const int odd = world.size() - 1;
  try {
    const auto c = difference.make(world.group(), progress, world.rank() == odd);
    ADD_FAILURE() << "was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
    EXPECT_TRUE(error.is_on_every_rank()) << error.what();
    EXPECT_NE(error.message().find("rank " + std::to_string(odd) + " on " + world.host() + " has "), std::string::npos)
        << error.what();
    EXPECT_NE(error.message().find(difference.text), std::string::npos) << error.what();
  }
  world.close();
}

INSTANTIATE_TEST_SUITE_P(, Unequal, testing::ValuesIn(option_differences),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::backends
