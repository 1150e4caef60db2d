// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"

namespace lockstep {

/// GoogleTest writes a code by its name.
inline void PrintTo(ErrorCode code, std::ostream* out) { *out << name(code); }

/// Returns the code of the Error that the call throws; nothing if it throws none.
template <typename Call>
std::optional<ErrorCode> code_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

/// Expects an Error of this code whose message contains each of these parts.
template <typename Call>
void expect_error(const Call& call, ErrorCode code, const std::vector<std::string>& parts = {}) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected " << name(code);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
  }
}

/// As `expect_error`, of an error that every rank throws at this point.
template <typename Call>
void expect_error_on_every_rank(const Call& call, ErrorCode code, const std::vector<std::string>& parts = {}) {
  expect_error(
      [&] {
        try {
          call();
        } catch (const Error& error) {
          EXPECT_TRUE(error.is_on_every_rank()) << error.what();
          throw;
        }
      },
      code, parts);
}

}  // namespace lockstep
