// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/errors.hpp"
#include "vision/formats/text_records.hpp"

namespace lockstep::vision {
namespace {

TEST(WithoutLiblmdb, ADatabaseSaysWhichPackageIsMissing) {
  expect_error([] { (void)open_lmdb("words/training"); }, ErrorCode::unsupported,
               {"words/training is a database of LMDB", "without liblmdb", "liblmdb-dev"});
}

}  // namespace
}  // namespace lockstep::vision
