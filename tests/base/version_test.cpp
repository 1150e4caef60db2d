// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/version.hpp"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(Version, OfTheLibraryIsThatOfItsHeaders) {
  EXPECT_EQ(version(), std::to_string(LOCKSTEP_VERSION_MAJOR) + '.' + std::to_string(LOCKSTEP_VERSION_MINOR) + '.' +
                           std::to_string(LOCKSTEP_VERSION_PATCH));
}

TEST(Version, CanBeComparedByThePreprocessor) {
  static_assert(LOCKSTEP_VERSION >= LOCKSTEP_MAKE_VERSION(0, 1, 0));
  static_assert(LOCKSTEP_MAKE_VERSION(0, 2, 0) > LOCKSTEP_MAKE_VERSION(0, 1, 99));
  static_assert(LOCKSTEP_MAKE_VERSION(1, 0, 0) > LOCKSTEP_MAKE_VERSION(0, 99, 99));
}

}  // namespace
}  // namespace lockstep
