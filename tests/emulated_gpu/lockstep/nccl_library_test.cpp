// SPDX-License-Identifier: Apache-2.0
// Tests groups on GPUs whose ranks cannot load NCCL, or load different versions. The other version is a library with
// the emulation's functions and a version of its own (FAKE_NCCL_VERSION). backends.nccl_library_test covers loading.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nccl.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

class NcclOfAGroup : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }
  const World& world() { return world_; }
  [[nodiscard]] bool is_last() const { return world_.rank().value + 1 == world_.size(); }

  /// Makes the last rank, which has not loaded NCCL yet, load this library.
  void last_rank_takes(const char* file, const char* version) {
    if (!is_last()) return;
    setenv("LOCKSTEP_NCCL_LIBRARY", file, 1);
    setenv("FAKE_NCCL_VERSION", version, 1);
  }

  /// Expects that constructing the group throws this error on every rank.
  void expect_refusal(ErrorCode code, std::initializer_list<std::string> parts) {
    try {
      ProcessGroup group(world(), {.device = Device::cuda});
      FAIL() << "the group was made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_TRUE(error.is_on_every_rank());
      for (const std::string& part : parts)
        EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
            << "no '" << part << "' in: " << error.what();
    }
  }

 private:
  World world_;
};

std::string version_of_header() {
  return std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + "." + std::to_string(NCCL_PATCH);
}

// The tests may run in this order, because a rank that was refused tries again.

TEST_F(NcclOfAGroup, ThatOneRankCannotLoadIsNamedOnAllRanks) {
  last_rank_takes("/nonexistent/libnccl.so.2", "");
  expect_refusal(ErrorCode::unsupported, {"rank " + std::to_string(world().size() - 1),
                                          "LOCKSTEP_NCCL_LIBRARY=/nonexistent/libnccl.so.2", "Install NCCL 2"});
}

TEST_F(NcclOfAGroup, ThatIsTooOldOnOneRankIsNamedOnAllRanks) {
  last_rank_takes(LOCKSTEP_FAKE_NCCL, "21805");
  expect_refusal(ErrorCode::unsupported,
                 {"rank " + std::to_string(world().size() - 1), "NCCL 2.18.5 (" LOCKSTEP_FAKE_NCCL ")", "too old"});
}

TEST_F(NcclOfAGroup, OfTwoVersionsIsAMismatchThatNamesThem) {
  last_rank_takes(LOCKSTEP_FAKE_NCCL, "22703");
  expect_refusal(ErrorCode::mismatch,
                 {"rank " + std::to_string(world().size() - 1) + " on ", "NCCL 2.27.3", version_of_header()});
}

/// This test runs alone, with that version on all ranks.
TEST_F(NcclOfAGroup, ThatHasKnownFaultsIsUsedAndRankZeroIsTold) {
  ASSERT_EQ(backends::nccl_version(), "2.28.5");
  std::vector<std::string> notices;
  const auto notice = [&](std::string_view text) { notices.emplace_back(text); };
  for (int time = 0; time < 2; ++time) {
    ProcessGroup group(world(), {.device = Device::cuda, .notice = notice});
    const Allocation values = group.allocate({4});
    group.communicator().all_reduce(values.as(DType::float32), values.as(DType::float32), ReduceOp::sum).wait();
    group.close();
  }
  ASSERT_EQ(notices.size(), world().rank().value == 0 ? 1U : 0U) << "once";
  for (const std::string& text : notices) EXPECT_NE(text.find("NCCL 2.28.5"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
