// SPDX-License-Identifier: Apache-2.0
// Runs each target with its seeds, which are good and bad files, and with cut and changed ones.
// mpi-scripts/check/fuzz.sh goes on from there.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "fuzz/targets.hpp"

namespace lockstep::fuzz {
namespace {

std::vector<std::string> seeds_of(const Target& target) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_FUZZ_SEEDS "/" + target.name)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

TEST(Seeds, ThrowNothingThatIsNotDocumented) {
  EXPECT_GE(targets().size(), 8U);
  std::mt19937 generator(1);
  for (const Target& target : targets()) {
    const std::vector<std::string> seeds = seeds_of(target);
    EXPECT_GE(seeds.size(), 2U) << target.name;
    for (const std::string& seed : seeds) {
      EXPECT_NO_THROW(target.run(seed)) << target.name << ":\n" << seed;
      for (int change = 0; change < 20 && !seed.empty(); ++change) {
        std::string input = seed.substr(0, generator() % (seed.size() + 1));
        if (!input.empty()) input[generator() % input.size()] = static_cast<char>(generator());
        EXPECT_NO_THROW(target.run(input)) << target.name << ":\n" << input;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::fuzz
