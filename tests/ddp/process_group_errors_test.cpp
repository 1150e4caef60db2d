// SPDX-License-Identifier: Apache-2.0
// The errors that lockstep/ddp/process_group.hpp promises, as far as groups without a GPU can meet them.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "ddp/ranks.hpp"
#include "ddp/shared_folder.hpp"
#include "platform/gpu/gpu.hpp"
#include "support/errors.hpp"

namespace lockstep::ddp {
namespace {

/// Expects an error of this code where a group is made, and where a group is split.
void expect_refused(const GroupOptions& options, ErrorCode code, const std::vector<std::string>& parts = {}) {
  expect_error([&] { on_every_rank([](ProcessGroup&) {}, options); }, code, parts);
  on_every_rank([&](ProcessGroup& group) {
    expect_error([&] { (void)group.split(0, group.rank().value, options); }, code, parts);
  });
}

TEST(ProcessGroupErrors, OfOptionsThatCannotBe) {
  const auto invalid = ErrorCode::invalid_argument;
  expect_refused({.algorithm = "rign"}, invalid, {"'rign'", "did you mean 'ring'", "tree-order"});
  expect_refused({.algorithm = "tree-order", .compress = backends::WireFormat::bfloat16}, invalid, {"tree-order"});
  expect_refused({.sockets = "yess"}, invalid, {"'yess'", "did you mean 'yes'"});
}

TEST(ProcessGroupErrors, OfAGpuThatIsNotThere) {
  if (gpu_count() > 0) return;
  expect_refused({.device = Device::cuda}, ErrorCode::unsupported);
}

TEST(ProcessGroupErrors, OfThreads) {
  const auto make = [](int ranks, const GroupOptions& options) { (void)ProcessGroup::of_threads(ranks, options); };
  expect_error([&] { make(0, {}); }, ErrorCode::invalid_argument, {"at least 1 rank"});
  expect_error([&] { make(2, {.algorithm = "rign"}); }, ErrorCode::invalid_argument, {"'ring'"});
  expect_error([&] { make(2, {.algorithm = "mpi"}); }, ErrorCode::unsupported);
  expect_error([&] { make(2, {.device = Device::cuda}); }, ErrorCode::unsupported);
}

TEST(ProcessGroupErrors, OfTheTable) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    const std::string table = (folder / "table.json").string();
    const auto split = [&] { (void)group.split(0, group.rank().value, {.tuning = table}); };
    expect_error(split, ErrorCode::io, {table});
    (void)group.sum(0);  // all have failed to read it
    on_rank_zero(group, [&] { std::ofstream(table) << "{\"format\": 1}"; });
    expect_error(split, ErrorCode::corrupt, {table});
    (void)group.sum(0);  // all have read it, and rank 0 may remove it
  });
}

TEST(ProcessGroupErrors, OfMemoryThatIsNotThere) {
  on_every_rank([](ProcessGroup& group) {
    constexpr std::int64_t too_much = std::int64_t{1} << 57;
    expect_error([&] { (void)group.allocate({-1}); }, ErrorCode::invalid_argument);
    if (ranks_are_threads() || group.size() == 1) {
      EXPECT_THROW((void)group.allocate({too_much}), std::bad_alloc);
    } else {
      expect_error([&] { (void)group.allocate({too_much}); }, ErrorCode::unsupported);
    }
  });
}

TEST(ProcessGroupErrors, OfClosingWhileAnOperationIsUnderWay) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const Rank last{group.size() - 1};
    int number = 0;
    if (group.is_root()) {
      Work work = group.communicator().recv(number, last);
      expect_error([&] { group.close(); }, ErrorCode::invalid_argument, {"under way"});
      group.control().barrier().wait();
      work.wait();
      EXPECT_EQ(number, 7);
    } else {
      group.control().barrier().wait();
      number = 7;
      if (group.rank() == last) group.communicator().send(number, {0}).wait();
    }
  });
}

TEST(ProcessGroupErrors, OfClosingAfterAFailure) {
  on_every_rank([](ProcessGroup& whole) {
    auto group = whole.split(0, whole.rank().value);
    if (group->is_root()) group->abort("as if a rank had died");
    expect_error([&] { group->communicator().barrier().wait(); }, ErrorCode::transport, {"as if a rank had died"});
    expect_error([&] { group->close(); }, ErrorCode::transport, {"as if a rank had died"});
    group.reset();
  });
}

}  // namespace
}  // namespace lockstep::ddp
