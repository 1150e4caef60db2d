// SPDX-License-Identifier: Apache-2.0
// Counts the collective calls of MPI that train makes before and after it loads its data. An agreement takes two calls;
// ddp.start_up_test counts those of a World and of a ProcessGroup.
#include <gtest/gtest.h>

#include <cstdint>
#include <lockstep/train.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backends/pmpi_counters.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::train {
namespace {

/// A registry whose data set counts the calls before it is loaded, and resets the counters.
Registry counting(std::int64_t& before) {
  Registry registry;
  registry.datasets.add({.name = "counted",
                         .load =
                             [&before](const data::DatasetOptions& options) {
                               before = pmpi::counters().collectives;
                               pmpi::reset();
                               return Registry().datasets.load("synthetic-words", options);
                             },
                         .directory = data::Directory::none});
  return registry;
}

TEST(StartUp, AgreesOnceBeforeDataAreLoadedAndOnceAfter) {
  std::int64_t before = 0;
  const Registry registry = counting(before);
  std::vector<std::string> words = {"train",   "--dataset",  "counted", "--model",  "crnn",
                                    "--steps", "1",          "--batch", "6",        "--eval-interval",
                                    "never",   "--save-dir", "none",    "--device", "cpu"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  pmpi::reset();
  std::int64_t of_world = 0;
  (void)run({.program = "train"}, [&](World&) {
    of_world = pmpi::counters().collectives;
    return 0;
  });
  pmpi::reset();
  EXPECT_EQ(train_main(static_cast<int>(arguments.size()), arguments.data(), registry), 0);
  EXPECT_EQ(before - of_world, 6) << "two to agree, two to learn of each node's ranks, two to show the cluster";
  EXPECT_EQ(pmpi::counters().collectives_before_communicator, 5)
      << "two to agree, one to open files, two barriers: for the clocks of traces, and before the group's communicator";
}

}  // namespace
}  // namespace lockstep::train
