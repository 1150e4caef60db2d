// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::comm_bench {

inline Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "comm-bench");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

inline std::string complaint(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline void expect_complaint(const std::vector<const char*>& arguments, const std::string& part) {
  const std::string text = complaint(arguments);
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' does not say: " << part;
}

}  // namespace lockstep::comm_bench
