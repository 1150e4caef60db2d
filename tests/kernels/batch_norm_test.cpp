// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::kernels {
namespace {

/// Returns the result of `normalize` for one value, before the ReLU.
float normalized(float x, double scale, double shift) {
  const ChannelLayout one{1, 1, 1, 1};
  float y = 0;
  normalize(one, whole(one), {&scale, &shift, Clip::none}, &x, nullptr, &y);
  return y;
}

/// Checks values next to the threshold and far from it.
template <typename Reaches>
void expect_threshold(Threshold (*threshold)(double, double), const Reaches& reaches) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const double scale : {1.0, -1.0, 0.3712, -3e5, 1e-9, 0.0, 1e-42, -7e30}) {
    for (const double shift : {0.0, 0.1, -0.7131, 1e-30, -1e12, 1e-46, 6.0, 6.5, 1e12}) {
      const Threshold found = threshold(scale, shift);
      std::vector<float> values{0.0F, 1.0F, -1.0F, 1e-45F, -1e-45F, 3e38F, -3e38F, 0.01F, -0.3F, 5e4F};
      if (!std::isnan(found.from)) {
        float up = found.direction * found.from;
        float down = up;
        for (int i = 0; i < 3; ++i) {
          values.push_back(up = std::nextafter(up, infinity));
          values.push_back(down = std::nextafter(down, -infinity));
        }
        values.push_back(found.direction * found.from);
      }
      for (const float x : values) {
        if (std::isinf(x)) continue;
        EXPECT_EQ(found.direction * x >= found.from, reaches(normalized(x, scale, shift)))
            << x << " · " << scale << " + " << shift;
      }
    }
  }
}

TEST(Threshold, SaysWhereNormalizedValuesArePositive) {
  expect_threshold(threshold_of, [](float y) { return y > 0; });
}

TEST(Threshold, SaysWhereNormalizedValuesAreSixOrMore) {
  expect_threshold(threshold_of_six, [](float y) { return y >= 6; });
}

TEST(Threshold, IsNowhereForWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(threshold_of(nan, 1).from));
  EXPECT_TRUE(std::isnan(threshold_of(1, nan).from));
  EXPECT_TRUE(std::isnan(threshold_of_six(1, nan).from));
}

}  // namespace
}  // namespace lockstep::kernels
