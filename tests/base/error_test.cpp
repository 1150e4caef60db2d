// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Error, TextNamesEveryKnownField) {
  const Error error(ErrorCode::timeout, "no answer for 2 s",
                    {.operation = "all_reduce",
                     .label = "bucket 3",
                     .step = 7,
                     .rank = 1,
                     .host = "h1",
                     .peers = {2, 5},
                     .bytes = 64});
  EXPECT_STREQ(error.what(),
               "rank 1 on h1: timeout: no answer for 2 s (operation all_reduce, label 'bucket 3', step 7, peer ranks 2 "
               "5, bytes 64)");
}

TEST(Error, TellsTheActionOfAPlanFromAStepOfTraining) {
  const Error error = Error(ErrorCode::timeout, "m").in_action(3).in_action(4).in_step(7);
  EXPECT_STREQ(error.what(), "timeout: m (step 7, algorithm step 3)");
}

TEST(Error, WhoReportsItsOwnFaultIsNotNamedAsAPeer) {
  EXPECT_STREQ(Error(ErrorCode::io, "m", {.rank = 1, .peers = {1}}).what(), "rank 1: io: m");
  EXPECT_STREQ(Error(ErrorCode::io, "m", {.rank = 1, .peers = {0}}).what(), "rank 1: io: m (peer rank 0)");
  EXPECT_STREQ(Error(ErrorCode::io, "m", {.rank = 1, .peers = {0, 1}}).what(), "rank 1: io: m (peer rank 0)");
  EXPECT_STREQ(Error(ErrorCode::mismatch, "m", {.peers = {0, 1}}).what(), "mismatch: m (peer ranks 0 1)");
  EXPECT_STREQ(Error(ErrorCode::mismatch, "m", {.peers = {0, 1}}).on_every_rank().what(), "mismatch: m (on ranks 0 1)");
  EXPECT_STREQ(Error(ErrorCode::io, "m", {.rank = 1, .peers = {1}}).on_every_rank().what(), "rank 1: io: m");
}

TEST(Error, UnknownFieldsAreLeftOut) {
  EXPECT_STREQ(Error(ErrorCode::io, "cannot read x").what(), "io: cannot read x");
}

TEST(Error, ReportedByFillsOnlyWhatWasUnknown) {
  const Error error = Error(ErrorCode::io, "m", {.rank = 4}).reported_by(1, "h2");
  EXPECT_EQ(error.context().rank, 4);
  EXPECT_EQ(error.context().host, "h2");
  EXPECT_STREQ(error.what(), "rank 4 on h2: io: m");
}

TEST(Error, InStepFillsOnlyAnUnknownStep) {
  EXPECT_EQ(Error(ErrorCode::io, "m").in_step(3).context().step, 3);
  EXPECT_EQ(Error(ErrorCode::io, "m", {.step = 1}).in_step(3).context().step, 1);
}

TEST(Error, IsOnEveryRankOnlyWhereThatWasSaid) {
  const Error error(ErrorCode::io, "m");
  EXPECT_FALSE(error.is_on_every_rank());
  EXPECT_TRUE(error.on_every_rank().is_on_every_rank());
  EXPECT_FALSE(error.is_consequence());
  EXPECT_TRUE(error.as_consequence().is_consequence());
  EXPECT_TRUE(error.on_every_rank().in_step(1).reported_by(0, "h").is_on_every_rank());
}

TEST(Error, NamesStrangersInHarmlessCharacters) {
  const std::string escape = "\x1b[2J\xff";
  const Error error(ErrorCode::io, escape, {.operation = escape, .label = escape, .rank = 1, .host = escape});
  EXPECT_STREQ(error.what(), "rank 1 on ?[2J?: io: ?[2J? (operation ?[2J?, label '?[2J?')");
}

TEST(Error, KeepsTheLineItWasMadeOn) { EXPECT_GT(Error(ErrorCode::io, "m").location().line(), 0U); }

}  // namespace
}  // namespace lockstep
