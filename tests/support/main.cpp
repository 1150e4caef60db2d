// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/verdict.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  lockstep::testing_support::select_files(argc, argv);
  return lockstep::testing_support::verdict(RUN_ALL_TESTS());
}
