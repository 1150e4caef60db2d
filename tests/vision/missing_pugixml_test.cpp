// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/errors.hpp"
#include "vision/formats/voc_annotation.hpp"

namespace lockstep::vision {
namespace {

TEST(WithoutPugixml, AnAnnotationSaysWhichPackageIsMissing) {
  expect_error([] { (void)parse_voc("<annotation/>", "data/a.xml"); }, ErrorCode::unsupported,
               {"data/a.xml is XML", "without pugixml", "libpugixml-dev"});
}

}  // namespace
}  // namespace lockstep::vision
