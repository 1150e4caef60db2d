// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/cpu_features.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace lockstep {
namespace {

bool kernel_lists(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == flag) return true;
    }
    return false;
  }
  return false;
}

TEST(CpuFeatures, AgreeWithTheKernel) {
  const CpuFeatures features = detect_cpu_features();
  EXPECT_EQ(features.avx2, kernel_lists("avx2"));
  EXPECT_EQ(features.fma, kernel_lists("fma"));
  EXPECT_EQ(features.avx512f, kernel_lists("avx512f"));
  EXPECT_EQ(features.avx512_bf16, kernel_lists("avx512_bf16"));
  EXPECT_EQ(features.amx_bf16, kernel_lists("amx_bf16"));
}

TEST(CpuFeatures, NamesThosePresent) {
  EXPECT_TRUE(CpuFeatures{}.names().empty());
  const CpuFeatures some{.avx2 = true, .amx_bf16 = true};
  EXPECT_EQ(some.names(), (std::vector<std::string_view>{"avx2", "amx-bf16"}));
}

}  // namespace
}  // namespace lockstep
