// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "hosts/hosts.hpp"

namespace lockstep::testing_support {
namespace {

constexpr int link_attempts = 4;

/// Returns the fraction of the time for which 64 MiB occupy a link of 1 Gbit/s, in the fastest of five all-reduces.
double busy_share() {
  constexpr double bytes = 64 << 20;
  constexpr double bytes_per_second = 1e9 / 8;
  const auto file = std::filesystem::temp_directory_path() / ("lockstep-link-" + std::to_string(getpid()) + ".json");
  const auto result =
      run_program(script(std::string("run --rate 1gbit --per-host 2 ") + LOCKSTEP_COMM_BENCH +
                         " --min 64M --max 64M --algorithm hierarchical-ring --repetitions 5 --warmup 1 --json " +
                         file.string() + " 2>&1"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  if (result.exit_code != 0) return 0;
  const auto measured = nlohmann::json::parse(std::ifstream(file)).at("results").at(0);
  std::filesystem::remove(file);
  return bytes / bytes_per_second / (measured.at("min_us").get<double>() * 1e-6);
}

/// Both ranks of a host send at once, so the link is always busy. Headers take 5 % of the link. Other processes only
/// make it slower, so one good attempt is sufficient proof.
TEST_F(Hosts, KeepTheirLinkBusyInAHierarchicalAllReduce) {
  double busy = 0;
  for (int attempt = 0; attempt < link_attempts && busy < 0.9 && !HasFailure(); ++attempt) {
    busy = std::max(busy, busy_share());
    std::printf("the link was busy %.1f %% of the time\n", 100 * busy);
  }
  EXPECT_GE(busy, 0.9);
  EXPECT_LE(busy, 1.05) << "the rate is not what was asked for";
}

}  // namespace
}  // namespace lockstep::testing_support
