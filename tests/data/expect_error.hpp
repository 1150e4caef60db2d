// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.hpp"

namespace lockstep::data {

/// Expects an Error of this code whose message contains each of these parts.
template <class Action>
void expect_error(Action action, ErrorCode code, const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    for (const std::string& part : parts) EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

}  // namespace lockstep::data
