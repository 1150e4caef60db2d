// SPDX-License-Identifier: Apache-2.0
#include "kernels/peak.hpp"

#include <gtest/gtest.h>

namespace lockstep::kernels {
namespace {

/// Each of the 128 sums converges to 2, because it is halved and 1 is added.
TEST(Peak, MultipliesAndAdds) {
  EXPECT_EQ(multiply_add_float32(100), 256.0F);
  EXPECT_EQ(multiply_add_float64(100), 256.0);
  EXPECT_NE(multiply_add_float64(1), 256.0) << "the sums begin with different numbers";
}

}  // namespace
}  // namespace lockstep::kernels
