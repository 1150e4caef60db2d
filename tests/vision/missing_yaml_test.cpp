// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/errors.hpp"
#include "vision/formats/data_yaml.hpp"

namespace lockstep::vision {
namespace {

TEST(WithoutYamlCpp, ADataYamlSaysWhichPackageIsMissing) {
  expect_error([] { (void)parse_data_yaml("names: [a]", "bccd/data.yaml"); }, ErrorCode::unsupported,
               {"bccd/data.yaml is YAML", "without yaml-cpp", "libyaml-cpp-dev"});
}

}  // namespace
}  // namespace lockstep::vision
