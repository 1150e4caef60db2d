// SPDX-License-Identifier: Apache-2.0
// Processes that save checkpoints are killed: at random instants, and at every system call of a save.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "state/scratch_folder.hpp"
#include "state/small_checkpoint.hpp"
#include "state/verify.hpp"

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

/// Expects that the folder of a killed process has only good checkpoints, the newest of them at least of this step, and
/// that nothing else is left once the next process has opened it. @return the newest step
std::int64_t expect_order(const fs::path& run, std::int64_t at_least) {
  // Before anything is put in order: whatever has a name is whole, and so are those that the links name.
  for (const CheckpointEntry& entry : list_checkpoints(run)) EXPECT_EQ(why_refused(entry.path, Check::checksums), "");
  const CheckpointFolder folder(run);
  Names expected;
  std::int64_t newest = 0;
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    EXPECT_EQ(why_refused(entry.path, Check::checksums), "");
    const SafetensorsReader reader(entry.path / "model.safetensors");
    std::vector<float> weight(static_cast<std::size_t>(reader.header().tensors().back().count().value));
    reader.read(reader.index_of("weight"), {0}, weight);
    EXPECT_EQ(weight, values_of(entry.step, static_cast<std::int64_t>(weight.size())));
    expected.insert(entry.path.filename().string());
    newest = std::max(newest, entry.step);
  }
  EXPECT_GE(newest, at_least);
  for (const char* link : {"last", "best"}) {
    if (!fs::is_symlink(folder.path() / link)) continue;
    EXPECT_EQ(why_refused(folder.path() / link, Check::checksums), "") << link;
    expected.insert(link);
  }
  EXPECT_EQ(names_in(folder.path()), expected);
  return newest;
}

/// Saves one checkpoint after another, some of them a second time, and reports each step through the pipe.
[[noreturn]] void save_on(const fs::path& run, std::int64_t step, int report) {
  CheckpointFolder folder(run);
  for (;; ++step) {
    save_small(folder, step, 100 + step * 7919 % 30'000);
    if (step % 3 == 0) save_small(folder, step, 5000);
    if (write(report, &step, sizeof step) != sizeof step) _exit(1);
    if (step % 2 == 0) folder.link_best(step);
    folder.remove_all_but(2);
  }
}

TEST(Crash, AtARandomInstantLeavesOnlyGoodCheckpoints) {
  const ScratchFolder run;
  std::mt19937 generator(7);
  std::int64_t newest = 0;
  for (int kill_number = 0; kill_number < 100; ++kill_number) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) save_on(run.path(), newest + 1, ends[1]);
    close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(500, 40'000)(generator)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << WEXITSTATUS(status);
    std::int64_t reported = newest;
    for (std::int64_t step = 0; read(ends[0], &step, sizeof step) == sizeof step;) reported = step;
    close(ends[0]);
    newest = expect_order(run.path(), reported);
    if (HasFailure()) return;
  }
  EXPECT_GT(newest, 20);
}

/// A system call of a traced process, as it begins.
struct SystemCall {
  std::uint64_t number = 0;
  std::uint64_t descriptor = 0;  // the first argument
};

/// Runs `save` in a child until its system call `calls` is about to begin, and kills it there. @return the system calls
/// before; all if the child has ended by itself
std::vector<SystemCall> run_until(std::size_t calls, const std::function<void()>& save) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    save();
    _exit(0);
  }
  std::vector<SystemCall> done;
  int status = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  while (WIFSTOPPED(status)) {
    __ptrace_syscall_info info{};
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
      if (done.size() == calls) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return done;
      }
      done.push_back({info.entry.nr, info.entry.args[0]});
    }
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &status, 0);
  }
  EXPECT_EQ(status, 0);
  return done;
}

/// What a process does to save step 3 into a run that has 1, 2 and 3 and keeps two.
void save_third(const fs::path& run) {
  CheckpointFolder folder(run);
  save_small(folder, 3, 10);
  folder.link_best(3);
  folder.remove_all_but(1);
}

/// Makes such a run.
void prepare(const fs::path& run) {
  CheckpointFolder folder(run);
  for (const std::int64_t step : {1, 2, 3}) save_small(folder, step, 10);
  folder.link_best(1);
}

TEST(Crash, AtEverySystemCallLeavesOnlyGoodCheckpoints) {
  const ScratchFolder original;
  prepare(original.path());
  const ScratchFolder run;
  const auto saved_until = [&](std::size_t call) {
    fs::remove_all(checkpoints_of(run.path()));
    fs::copy(original.path(), run.path(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return run_until(call, [&] { save_third(run.path()); }).size();
  };
  std::size_t call = 0;
  for (; saved_until(call) == call; ++call) {  // until the process ends before
    EXPECT_EQ(expect_order(run.path(), 3), 3);
    ASSERT_FALSE(HasFailure()) << "killed at system call " << call;
  }
  EXPECT_GT(call, 50U);
}

bool is_rename(std::uint64_t call) {
#ifdef SYS_rename  // not on all processors
  if (call == SYS_rename) return true;
#endif
  return call == SYS_renameat || call == SYS_renameat2;
}

/// A machine that crashes loses what was not written to disk, which no killed process shows.
TEST(Crash, NoFileIsRenamedBeforeItIsOnDisk) {
  const ScratchFolder run;
  prepare(run.path());
  std::set<std::uint64_t> unwritten;  // descriptors
  int writes = 0;
  int renames = 0;
  bool must_sync_folder = false;
  for (const SystemCall& call : run_until(SIZE_MAX, [&] {
         CheckpointFolder folder(run.path());
         save_small(folder, 4, 10);
       })) {
    if (call.number == SYS_pwrite64) {
      unwritten.insert(call.descriptor);
      ++writes;
    } else if (call.number == SYS_fsync) {
      unwritten.erase(call.descriptor);
      must_sync_folder = false;
    } else if (is_rename(call.number)) {
      EXPECT_TRUE(unwritten.empty());
      EXPECT_FALSE(must_sync_folder) << "a rename that may come to disk before the one that it relies on";
      must_sync_folder = true;
      ++renames;
    }
  }
  EXPECT_GE(writes, 7);   // two headers, four tensors, state.json
  EXPECT_EQ(renames, 2);  // the checkpoint and the link
  EXPECT_FALSE(must_sync_folder);
}

}  // namespace
}  // namespace lockstep::state
