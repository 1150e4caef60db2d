// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/available_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace lockstep {
namespace {

/// A root folder with only the files that a test puts there.
class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() { write("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  800 kB\n"); }
  ~AvailableMemory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  [[nodiscard]] std::int64_t available() const { return available_memory(root_).value; }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("lockstep-memory-" + std::to_string(getpid()));
};

TEST_F(AvailableMemory, IsWhatTheMachineHasLeft) {
  EXPECT_EQ(available(), 800 * 1024);
  EXPECT_EQ(installed_memory(root_).value, 1000 * 1024);
}

TEST_F(AvailableMemory, OfThisProcessIsWhatIsResident) {
  EXPECT_EQ(resident_memory(root_).value, 0) << "nothing says";
  write("proc/self/statm", "100 25 3 1 0 60 0\n");
  EXPECT_EQ(resident_memory(root_).value, 25 * sysconf(_SC_PAGESIZE));
  EXPECT_GT(resident_memory().value, 1 << 20);
}

TEST_F(AvailableMemory, IsUnknownWhereNothingSays) {
  write("proc/meminfo", "");
  EXPECT_EQ(available_memory(root_), unknown_memory);
  EXPECT_EQ(installed_memory(root_), unknown_memory);
}

TEST_F(AvailableMemory, HeedsTheLimitOfAParentGroup) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/memory.max", "500000\n");
  write("sys/fs/cgroup/job/memory.current", "300000\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1000\nactive_file 2000\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "300000\n");
  EXPECT_EQ(available(), 203'000);
}

TEST_F(AvailableMemory, HeedsTheLimitOfAContainerThatSeesOnlyTheEndOfItsPath) {
  write("proc/self/cgroup", "5:cpu:/host/path\n4:memory:/host/path\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "100000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "90000\n");
  EXPECT_EQ(available(), 10'000);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "100001\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(AvailableMemory, AnUnlimitedGroupDoesNotCount) {
  write("proc/self/cgroup", "4:memory:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "90000\n");
  EXPECT_EQ(available(), 800 * 1024);
}

TEST(AvailableMemoryHere, IsKnownAndLessThanAll) { EXPECT_LT(available_memory(), installed_memory()); }

}  // namespace
}  // namespace lockstep
