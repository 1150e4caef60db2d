// SPDX-License-Identifier: Apache-2.0
// Ranks of a store that are watched: what a group explains while one of them does not come, and who says so by itself.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "state/scratch_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::optional<ErrorCode> code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

/// Texts that a thread of the watch passes on.
class Notices {
 public:
  void add(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    texts_.emplace_back(text);
  }
  [[nodiscard]] std::vector<std::string> texts() const {
    const std::scoped_lock lock(mutex_);
    return texts_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

WatchOptions telling(Notices& notices, std::chrono::duration<double> after) {
  return {.on_late = [&](std::string_view text) { notices.add(text); }, .late_after = after};
}

RankSet set_of(const std::string& folder, int rank, std::chrono::duration<double> deadline = 60s) {
  return from_store(make_file_store(folder), {.rank = {rank}, .size = 2}, deadline);
}

/// A place of which the stacks of a rank tell.
extern "C" __attribute__((noinline)) void look_for_a_lost_file(int until_it_closes) {
  char byte = 0;
  (void)!read(until_it_closes, &byte, 1);
}

/// Rank 1 keeps rank 0 waiting until it may go on.
int run_slow_rank(const std::string& folder, int may_go_on) {
  Notices notices;
  RankSet set = set_of(folder, 1);
  set.watch(telling(notices, 300ms));
  ProcessGroup group(std::move(set));
  look_for_a_lost_file(may_go_on);
  std::vector<float> values(1000, 2.0F);
  group.communicator().all_reduce(values, values, ReduceOp::sum, Queue::host(), "means").wait();
  group.close();
  return values.front() == 3.0F && notices.texts().empty() ? 0 : 1;
}

/// @return whether the condition came true while work was polled for at most 20 s
bool comes_true(Work& work, const std::function<bool()>& condition) {
  for (const auto end = Clock::now() + 20s; Clock::now() < end; std::this_thread::sleep_for(5ms)) {
    (void)work.test();
    if (condition()) return true;
  }
  return false;
}

TEST(WatchedRanks, SayWhatAllDoWhileOneDoesNotCome) {
  const state::ScratchFolder folder;
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[1]);
    _exit(run_slow_rank(folder.path(), pipe_ends[0]));
  }
  close(pipe_ends[0]);
  Notices notices;
  RankSet set = set_of(folder.path(), 0);
  EXPECT_EQ(set.explain_ranks(), "");
  EXPECT_EQ(code_of([&] { set.watch(telling(notices, 0s)); }), ErrorCode::invalid_argument);
  set.watch(telling(notices, 300ms));
  EXPECT_EQ(code_of([&] { set.watch({}); }), ErrorCode::invalid_argument) << "a second time";
  ProcessGroup group(std::move(set));
  std::vector<float> values(1000, 1.0F);
  Work work = group.communicator().all_reduce(values, values, ReduceOp::sum, Queue::host(), "means");
  ASSERT_TRUE(comes_true(work, [&] { return !notices.texts().empty(); }));
  const std::string notice = notices.texts().front();
  EXPECT_TRUE(notice.starts_with("rank 0 on " + group.host() + " has waited for other ranks for ")) << notice;
  for (const std::string& text : {notice, group.explain_ranks()}) {
    EXPECT_TRUE(contains(text, "rank 1")) << text;
    EXPECT_TRUE(contains(text, "means")) << text;
    EXPECT_TRUE(contains(text, "look_for_a_lost_file")) << text;
  }
  std::this_thread::sleep_for(1s);
  (void)work.test();
  EXPECT_EQ(notices.texts().size(), 1U) << "told again while it waits for the same";
  close(pipe_ends[1]);
  work.wait();
  EXPECT_EQ(values.back(), 3.0F);
  group.close();
  EXPECT_EQ(code_of([&] { (void)group.explain_ranks(); }), ErrorCode::invalid_argument);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(WatchedRanks, NameOneThatIsNotToBeWatched) {
  const state::ScratchFolder folder;
  std::thread other([&] { (void)set_of(folder.path(), 1); });
  RankSet set = set_of(folder.path(), 0, 500ms);
  try {
    set.watch({});
    FAIL() << "rank 1 is not to be watched";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_EQ(error.context().peers, std::vector<int>{1}) << error.what();
  }
  other.join();
}

}  // namespace
}  // namespace lockstep
