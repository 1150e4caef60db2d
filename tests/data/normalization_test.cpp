// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/base/error.hpp"
#include "lockstep/data/images.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

TEST(Normalization, MeasuresEachChannel) {
  // Channel 0 holds 0, 255, 0, 255; channel 1 holds 10, 20, 30, 40.
  const Images images{
      .name = "two", .shape = {2, 1, 2}, .classes = 1, .images = {0, 255, 10, 20, 0, 255, 30, 40}, .labels = {0, 0}};
  const Normalization result = measure_normalization(images);
  ASSERT_EQ(result.mean.size(), 2U);
  EXPECT_DOUBLE_EQ(result.mean[0], 0.5);
  EXPECT_DOUBLE_EQ(result.deviation[0], 0.5);
  EXPECT_DOUBLE_EQ(result.mean[1], 25.0 / 255);
  EXPECT_DOUBLE_EQ(result.deviation[1], std::sqrt(125.0) / 255);
}

TEST(Normalization, ConstantChannelIsOnlyCenterd) {
  const Images images{.name = "flat", .shape = {1, 1, 3}, .classes = 1, .images = {77, 77, 77}, .labels = {0}};
  const Normalization result = measure_normalization(images);
  EXPECT_DOUBLE_EQ(result.mean[0], 77.0 / 255);
  EXPECT_EQ(result.deviation[0], 1.0);
}

TEST(Normalization, RefusesToMeasureNothing) {
  const Images none{.name = "none", .shape = {1, 2, 2}, .classes = 1};
  EXPECT_EQ(code_of([&] { (void)measure_normalization(none); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace lockstep::data
