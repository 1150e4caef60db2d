// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/cli/facts.hpp"
#include "apps/cli/run_app.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::cli {
namespace {

/// Each fact in turn has another value on the last rank. Harmful differences are errors on every rank, which name that
/// rank, its host and its value; the others let the run go on.
TEST(Start, EveryFactThatOneRankHasOtherwiseIsFound) {
  World world;
  const int odd = world.size() - 1;
  const std::vector<Term> facts = facts_of_process();
  const std::string who = "rank " + std::to_string(odd) + " on " + world.host() + " has ";
  int harmful = 0;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    std::vector<Term> mine = facts;
    if (world.rank().value == odd) mine[i].value = "something else";
    if (facts[i].is_harmless) {
      const std::string differences = require_equal(world.group(), mine);
      EXPECT_NE(differences.find(who + facts[i].name + " something else"), std::string::npos) << differences;
      EXPECT_NO_THROW(require_same_start(world, "test", "", mine)) << facts[i].name;
      continue;
    }
    ++harmful;
    try {
      require_same_start(world, "test", "", mine);
      ADD_FAILURE() << facts[i].name << " differs, and nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_TRUE(error.is_on_every_rank());
      EXPECT_NE(error.message().find(who + facts[i].name + " something else"), std::string::npos) << error.message();
    }
  }
  EXPECT_EQ(harmful, 3) << "build, protocol and the treatment of subnormal numbers";
  EXPECT_NO_THROW(require_same_start(world, "test", "", facts));
  world.close();
}

TEST(Start, AMistakeComesBeforeDifferences) {
  World world;
  const bool is_odd = world.rank().value == 1;
  std::vector<Term> settings = facts_of_process();
  if (!is_odd) settings.push_back({"--lr", "0.1"});
  try {
    require_same_start(world, "test", is_odd ? "--lr x: it must be a number" : "", settings);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()), "rank 1 on " + world.host() + ": --lr x: it must be a number");
  }
  world.close();
}

}  // namespace
}  // namespace lockstep::cli
