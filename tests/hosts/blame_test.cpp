// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <tuple>

#include "hosts/hosts.hpp"

namespace lockstep::testing_support {
namespace {

/// Number of hosts, ranks on each, and the method by which they communicate.
using Stop = std::tuple<int, int, const char*>;
class StoppedRankOnHosts : public Hosts, public testing::WithParamInterface<Stop> {};

/// The rank that gives up first has waited for an innocent rank, which waits for the stopped one. Its error names the
/// stopped rank and its host.
TEST_P(StoppedRankOnHosts, IsTheOnlyOneNamed) {
  const auto [hosts, per_host, method] = GetParam();
  const auto result =
      run_program(script("run --hosts " + std::to_string(hosts) + " --per-host " + std::to_string(per_host) + ' ' +
                         LOCKSTEP_STOPPED_RANK + ' ' + method + " 1 2>&1"));
  const std::string host = per_host == 1 ? "host2" : "host1";
  EXPECT_NE(result.exit_code, 0);
  EXPECT_GE(occurrences(result.output, ": timeout: "), 1) << result.output;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(": timeout: ") == std::string::npos) continue;
    EXPECT_NE(line.find("rank 1 on " + host + " does not answer"), std::string::npos) << line;
    EXPECT_NE(line.find("peer rank 1,"), std::string::npos) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(, StoppedRankOnHosts, testing::Values(Stop{4, 1, "ring"}, Stop{3, 2, "auto"}),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "Times" +
                                  std::to_string(std::get<1>(test.param)) + std::get<2>(test.param);
                         });

}  // namespace
}  // namespace lockstep::testing_support
