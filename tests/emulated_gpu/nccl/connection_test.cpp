// SPDX-License-Identifier: Apache-2.0
// Tests the connection of two ranks: memory on one host, unless NCCL_SHM_DISABLE is set, and a socket between hosts.
#include "emulated_gpu/nccl/connection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "emulated_gpu/device/random.hpp"

namespace emulated_gpu::nccl_test {
namespace {

struct Pair {
  std::unique_ptr<Connection> low;
  std::unique_ptr<Connection> high;
};

Pair connect(std::uint64_t name, bool is_same_host) {
  const auto goes_on = [] { return false; };
  Pair pair;
  std::thread caller([&] { pair.low = connect_pair(name, 0, 1, address_for_peers(), is_same_host, goes_on); });
  pair.high = connect_pair(name, 1, 0, address_for_peers(), is_same_host, goes_on);
  caller.join();
  return pair;
}

std::vector<std::byte> drawn(std::size_t bytes, Random& random) {
  std::vector<std::byte> values(bytes);
  for (std::byte& value : values) value = static_cast<std::byte>(random.below(256));
  return values;
}

/// Transfers all values, in pieces of any size, with both sides progressing in any order.
std::vector<std::byte> carried(const std::vector<std::byte>& values, Connection& from, Connection& to, Random& random) {
  std::vector<std::byte> arrived;
  std::size_t put = 0;
  while (arrived.size() < values.size()) {
    const std::size_t more = std::min<std::size_t>(random.below(100000), values.size() - put);
    if (more > 0 && from.can_take()) {
      from.put(values.data() + put, more);
      put += more;
    }
    if (random.one_in(2)) (void)from.move();
    if (random.one_in(2)) (void)to.move();
    const std::size_t taken = std::min<std::size_t>(random.below(100000), to.available());
    arrived.insert(arrived.end(), to.front(), to.front() + taken);
    to.take(taken);
  }
  return arrived;
}

class Connections : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const char* text = std::getenv("NCCL_SHM_DISABLE");
    if (text != nullptr) before_ = text;
    unsetenv("NCCL_SHM_DISABLE");
  }
  void TearDown() override {
    if (before_) setenv("NCCL_SHM_DISABLE", before_->c_str(), 1);
  }
  [[nodiscard]] bool is_same_host() const { return GetParam(); }

 private:
  std::optional<std::string> before_;
};

TEST_P(Connections, CarryBytesInOrderBothWays) {
  Random random(7);
  const Pair pair = connect(1001, is_same_host());
  EXPECT_EQ(pair.low->shares_memory(), is_same_host());
  EXPECT_EQ(pair.high->shares_memory(), is_same_host());
  for (const std::size_t bytes : {std::size_t{1}, Ring::capacity, std::size_t{3000001}}) {
    const std::vector<std::byte> values = drawn(bytes, random);
    EXPECT_TRUE(carried(values, *pair.low, *pair.high, random) == values) << bytes;
    EXPECT_TRUE(carried(values, *pair.high, *pair.low, random) == values) << bytes;
  }
}

TEST_P(Connections, HoldWhatWasSentBeforeThePeerWent) {
  Random random(8);
  Pair pair = connect(1002, is_same_host());
  const std::vector<std::byte> values = drawn(5000, random);
  pair.low->put(values.data(), values.size());
  while (!pair.low->all_sent()) (void)pair.low->move();
  EXPECT_FALSE(pair.high->is_broken());
  pair.low.reset();
  while (!pair.high->is_broken()) (void)pair.high->move();
  ASSERT_EQ(pair.high->available(), values.size());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), pair.high->front()));
}

INSTANTIATE_TEST_SUITE_P(By, Connections, testing::Bool(),
                         [](const auto& by) { return std::string(by.param ? "Memory" : "Socket"); });

TEST(ConnectionsOfOneHost, AreSocketsWhereNcclIsToldSo) {
  setenv("NCCL_SHM_DISABLE", "1", 1);
  const Pair pair = connect(1003, true);
  EXPECT_FALSE(pair.low->shares_memory());
  EXPECT_FALSE(pair.high->shares_memory());
  unsetenv("NCCL_SHM_DISABLE");
}

}  // namespace
}  // namespace emulated_gpu::nccl_test
