// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/base/error.hpp"
#include "platform/machine/topology.hpp"

namespace lockstep {
namespace {

TEST(CpuSet, WritesAndReadsRanges) {
  for (const char* text : {"", "0", "0-3", "0-3,8", "1,3,5-6"}) EXPECT_EQ(CpuSet::parse(text).text(), text);
  EXPECT_EQ(CpuSet({8, 2, 1, 0, 3, 2}).text(), "0-3,8");
}

TEST(CpuSet, RefusesWhatIsNoSet) {
  for (const char* text : {"a", "3-1", "1,", ",1", "-1", "1-", "0-99999999"}) {
    EXPECT_THROW(CpuSet::parse(text), Error) << text;
  }
}

TEST(CpuSet, ComparesAndCombines) {
  const CpuSet a = CpuSet::parse("0-3");
  const CpuSet b = CpuSet::parse("2-5");
  EXPECT_EQ((a & b).text(), "2-3");
  EXPECT_EQ((a | b).text(), "0-5");
  EXPECT_TRUE(a.intersects(b));
  EXPECT_FALSE(a.includes(b));
  EXPECT_TRUE((a | b).includes(b));
  EXPECT_TRUE(a.includes(CpuSet()));
  EXPECT_FALSE(a.intersects(CpuSet()));
}

}  // namespace
}  // namespace lockstep
