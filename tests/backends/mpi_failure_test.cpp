// SPDX-License-Identifier: Apache-2.0
// Like failure_test, but between processes and for every back end over MPI, including the MPI library's own
// collectives, and for ranks that find each other by a store. A failure reaches the others in milliseconds, although
// the deadline is minutes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/keep.hpp"
#include "backends/make_agreed.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "backends/on_nodes.hpp"
#include "backends/on_store.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr auto failure_deadline = std::chrono::minutes(5);
constexpr auto soon = std::chrono::seconds(5);  // for a machine with more ranks than processors
constexpr std::int64_t failure_elements = 1 << 16;

struct BackEnd {
  std::string name;
  std::function<std::unique_ptr<Communicator>(const World&, Progress&)> make;
};

std::unique_ptr<Communicator> make_plan(const World& world, Progress& progress, Algorithm algorithm) {
  return plan_on(world.group(), progress,
                 {.selection = collectives::forced({.algorithm = algorithm}), .deadline = failure_deadline});
}

std::unique_ptr<Communicator> make_on_nodes(const World& world, Progress& progress, int ranks_per_node) {
  RankSet group = on_nodes(world, ranks_per_node);
  auto c = plan_on(group, progress, {.deadline = failure_deadline});
  group.close();
  return c;
}

const std::vector<BackEnd> back_ends = {
    {"Ring", [](const World& world, Progress& progress) { return make_plan(world, progress, Algorithm::ring); }},
    {"SharedMemory",
     [](const World& world, Progress& progress) { return make_plan(world, progress, Algorithm::shared_memory); }},
    {"Sockets",
     [](const World& world, Progress& progress) {
       return plan_on(world.group(), progress,
                      {.selection = collectives::forced({.algorithm = Algorithm::ring}),
                       .sockets = Sockets::everywhere,
                       .deadline = failure_deadline});
     }},
    {"NodesOfOne", [](const World& world, Progress& progress) { return make_on_nodes(world, progress, 1); }},
    {"NodesOfTwo", [](const World& world, Progress& progress) { return make_on_nodes(world, progress, 2); }},
    {"WithoutMpiOnNodesOfOne",
     [](const World& world, Progress& progress) {
       const OnStore ranks(world, 1);
       return plan_on(ranks.set(), progress, {.deadline = failure_deadline});
     }},
    {"Native",
     [](const World& world, Progress& progress) {
       return make_mpi_native(world.group(), progress, {.deadline = failure_deadline});
     }},
    {"Checked",
     [](const World& world, Progress& progress) {
       return make_mpi_native(world.group(), progress, {.check = true, .deadline = failure_deadline});
     }},
    {"Compressed",
     [](const World& world, Progress& progress) {
       return make_compressed(make_plan(world, progress, Algorithm::ring), WireFormat::bfloat16, progress);
     }},
};

struct Cause {
  std::string name;
  std::string reason;
  void (*happen)(std::unique_ptr<Communicator>);
};

const Cause causes[] = {
    {"Abort", "the loss is not a number",
     [](std::unique_ptr<Communicator> c) {
       c->abort("the loss is not a number");
       keep(std::move(c));
     }},
    {"Destruction", "destroyed before close()", [](std::unique_ptr<Communicator> c) { c.reset(); }},
    {"AnExceptionOfTheProgram", "an exception went through the program",
     [](std::unique_ptr<Communicator> c) {
       try {
         const auto communicator = std::move(c);
         throw std::runtime_error("of the program");
       } catch (const std::runtime_error&) {
       }
     }},
    {"AnEarlyClose", "closed the communicator after 1 operations", [](std::unique_ptr<Communicator> c) { c->close(); }},
};

class MpiFailure : public testing::TestWithParam<std::tuple<BackEnd, Cause>> {};

TEST_P(MpiFailure, ReachesEverybody) {
  const auto& [back_end, cause] = GetParam();
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = back_end.make(world, *progress);
  c->barrier().wait();
  std::vector<float> data(failure_elements, 1.0F);
  const Buffer buffer{data.data(), {failure_elements}, DType::float32};
  const int odd = world.size() - 1;
  const int idle = world.size() > 2 ? 0 : -1;  // it has nothing pending when the failure happens
  if (world.rank() == odd) {
    barrier(world.group());
    cause.happen(std::move(c));
  } else {
    std::optional<Work> work;
    if (world.rank() != idle) work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "weights");
    barrier(world.group());
    const auto begin = Clock::now();
    std::optional<Error> error;
    try {
      if (!work) work = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "weights");
      work->wait();
    } catch (const Error& caught) {
      error = caught;
    }
    EXPECT_LT(Clock::now() - begin, soon);
    EXPECT_TRUE(error) << "did not hear of it";
    if (error) {
      EXPECT_NE(error->message().find("rank " + std::to_string(odd)), std::string::npos) << error->what();
      EXPECT_NE(error->message().find(cause.reason), std::string::npos) << error->what();
      EXPECT_EQ(error->context().rank, world.rank().value);
      if (cause.name != "AnEarlyClose") {
        EXPECT_TRUE(error->is_consequence()) << error->what();
        EXPECT_NE(error->message().find("on " + world.host()), std::string::npos) << error->what();
      }
    }
    EXPECT_THROW((void)c->barrier(), Error) << "the communicator goes on";
  }
  barrier(world.group());
  if (world.rank() != odd) keep(std::move(c));
  keep(std::move(progress));
  keep(std::move(data));
  world.close();
}

/// Returns whether all files appear within half a minute.
bool come(const std::vector<std::filesystem::path>& files) {
  const auto begin = Clock::now();
  while (!std::all_of(files.begin(), files.end(), [](const auto& file) { return std::filesystem::exists(file); })) {
    if (Clock::now() - begin > std::chrono::seconds(30)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

TEST(MpiFailureOfARankAloneOnItsNode, ReachesEverybodyThoughItCallsMpiNoMore) {
  World world;
  std::string name = (std::filesystem::temp_directory_path() / "lockstep_failure_XXXXXX").string();
  if (world.rank() == Rank{0}) {
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
  }
  const std::filesystem::path folder = broadcast_string(world.group(), name, {0});
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make_on_nodes(world, *progress, 1);
  const int odd = world.size() - 1;
  barrier(world.group());
  if (world.rank() == odd) {
    c.reset();
    std::vector<std::filesystem::path> marks;
    for (int rank = 0; rank < odd; ++rank) marks.push_back(folder / std::to_string(rank));
    EXPECT_TRUE(come(marks));
  } else {
    try {
      c->barrier().wait();
      ADD_FAILURE() << "the barrier is complete without a rank";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("destroyed before close()"), std::string::npos) << error.what();
      EXPECT_NE(error.message().find("rank " + std::to_string(odd)), std::string::npos) << error.what();
    }
    std::ofstream(folder / std::to_string(world.rank().value)) << "heard";
  }
  barrier(world.group());
  if (world.rank() == Rank{0}) std::filesystem::remove_all(folder);
  keep(std::move(c));
  keep(std::move(progress));
  world.close();
}

INSTANTIATE_TEST_SUITE_P(, MpiFailure, testing::Combine(testing::ValuesIn(back_ends), testing::ValuesIn(causes)),
                         [](const auto& parameter) {
                           return std::get<0>(parameter.param).name + "_" + std::get<1>(parameter.param).name;
                         });

}  // namespace
}  // namespace lockstep::backends
