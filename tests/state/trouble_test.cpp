// SPDX-License-Identifier: Apache-2.0
// Folders in which nothing can be written, on file systems that only a child process has.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "state/scratch_folder.hpp"
#include "state/small_checkpoint.hpp"
#include "state/verify.hpp"
#include "support/verdict.hpp"

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

constexpr int no_namespaces = 100;  // exit code of a child that may not mount

/// Runs the test's body in a child process, and returns its exit code: 0 if no expectation failed.
int in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Gives the calling process a file system of its own, in memory, with so much room.
void mount_small(const fs::path& at, const char* options) {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(no_namespaces);
  write_content("/proc/self/setgroups", "deny");
  write_content("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
  write_content("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  if (mount("tmpfs", at.c_str(), "tmpfs", 0, options) != 0) _exit(no_namespaces);
}

/// Expects that saving fails with these words, and leaves what is there as it is.
void expect_failed_save(CheckpointFolder& folder, std::int64_t count, const std::vector<std::string>& words) {
  const Names before = names_in(folder.path());
  expect_refusal([&] { save_small(folder, 1000, count); }, ErrorCode::io, words);
  EXPECT_EQ(names_in(folder.path()), before);
  EXPECT_TRUE(newest_good_checkpoint(folder.run_folder()).refused.empty());
}

TEST(Trouble, AFullDiskLeavesTheOlderCheckpoints) {
  const ScratchFolder scratch;
  const int result = in_child([&] {
    mount_small(scratch.path(), "size=256k");
    CheckpointFolder folder(scratch.path());
    save_small(folder, 1);
    expect_failed_save(folder, 100'000, {".new-step-00001000/model.safetensors", "No space left", "free space"});
    // Now it is the disk that fills up between two files, and then while state.json is written.
    expect_failed_save(folder, 40'000, {"optimizer.safetensors", "No space left"});
    std::int64_t step = 1;
    for (bool full = false; !full;) {
      try {
        save_small(folder, ++step, 1000);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
        full = true;
      }
    }
    EXPECT_GT(step, 3);
    EXPECT_FALSE(names_in(folder.path()).contains(".new-" + checkpoint_name(step)));
    EXPECT_EQ(newest_good_checkpoint(scratch.path()).path, folder.path() / checkpoint_name(step - 1));
    folder.remove_all_but(1);
    save_small(folder, step, 1000);  // there is room again
  });
  if (result == no_namespaces) LOCKSTEP_SKIP(namespaces) << "no file system can be mounted here";
  EXPECT_EQ(result, 0);
}

TEST(Trouble, AReadOnlyFileSystemIsNamed) {
  const ScratchFolder scratch;
  const int result = in_child([&] {
    mount_small(scratch.path(), "size=256k");
    CheckpointFolder folder(scratch.path());
    save_small(folder, 1);
    ASSERT_EQ(mount(nullptr, scratch.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    const std::vector<std::string> words = {scratch.path().string(), "Read-only file system", "choose a folder"};
    expect_failed_save(folder, 10, words);
    expect_refusal([&] { folder.link_best(1); }, ErrorCode::io, words);
    expect_refusal([&] { make_run_folder(scratch / "runs/train"); }, ErrorCode::io, words);
  });
  if (result == no_namespaces) LOCKSTEP_SKIP(namespaces) << "no file system can be mounted here";
  EXPECT_EQ(result, 0);
}

TEST(Trouble, ALimitOfFileSizesIsNamed) {
  const ScratchFolder scratch;
  const int result = in_child([&] {
    CheckpointFolder folder(scratch.path());
    save_small(folder, 1);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_failed_save(folder, 100'000, {"model.safetensors", "File too large", "ulimit -f"});
    save_small(folder, 2, 1000);
  });
  EXPECT_EQ(result, 0);
}

TEST(Trouble, AFileWhereAFolderShouldBeIsNamed) {
  const ScratchFolder scratch;
  write_content(scratch / "runs", "a file");
  const auto refused = [](const auto& action, const std::string& path) {
    expect_refusal(action, ErrorCode::io, {path, "remove it, or choose another folder"});
  };
  refused([&] { make_run_folder(scratch / "runs/train"); }, (scratch / "runs").string());
  refused([&] { CheckpointFolder folder(scratch / "runs"); }, (scratch / "runs").string());
  EXPECT_EQ(content_of(scratch / "runs"), "a file");
  fs::create_directory(scratch / "run");
  write_content(scratch / "run/checkpoints", "a file");
  refused([&] { CheckpointFolder folder(scratch / "run"); }, "run/checkpoints");
}

TEST(Trouble, AFolderWithoutPermissionIsNamed) {
  const ScratchFolder scratch;
  const int result = in_child([&] {
    CheckpointFolder folder(scratch.path());
    save_small(folder, 1);
    fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
    if (getuid() == 0) {  // root may write everywhere
      fs::permissions(scratch.path(), fs::perms::all);
      fs::permissions(folder.path(), static_cast<fs::perms>(0555));
      ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
    }
    expect_failed_save(folder, 10, {folder.path().string(), "Permission denied", "change the permissions"});
  });
  fs::permissions(checkpoints_of(scratch.path()), fs::perms::owner_all);
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace lockstep::state
