// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "state/checkpoint_folder.hpp"
#include "state/scratch_folder.hpp"
#include "state/small_checkpoint.hpp"
#include "state/verify.hpp"

namespace {
bool has_symbolic_links = true;
}  // namespace

/// Takes the place of the C library's, so that a test can do without symbolic links, as on vfat.
extern "C" int symlink(const char* from, const char* to) noexcept {
  if (has_symbolic_links) return symlinkat(from, AT_FDCWD, to);
  errno = EPERM;
  return -1;
}

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

TEST(RunFolder, IsMadeOnceForEachRun) {
  const ScratchFolder folder;
  EXPECT_EQ(make_run_folder(folder / "runs/train"), folder / "runs/train");
  EXPECT_EQ(make_run_folder(folder / "runs/train/"), folder / "runs/train-2");
  write_content(folder / "runs/train-3", "a file");
  EXPECT_EQ(make_run_folder(folder / "runs/train"), folder / "runs/train-4");
  EXPECT_TRUE(fs::is_directory(folder / "runs/train-4"));
}

TEST(Checkpoint, HasItsFilesAndTheLinkLast) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  const fs::path path = save_small(folder, 12'000);
  EXPECT_EQ(path, run / "checkpoints/step-00012000");
  EXPECT_EQ(names_in(path), (Names{"model.safetensors", "optimizer.safetensors", "state.json"}));
  EXPECT_EQ(names_in(folder.path()), (Names{"last", "step-00012000"}));
  EXPECT_EQ(fs::read_symlink(folder.path() / "last"), "step-00012000");
  EXPECT_EQ(verify_checkpoint(path, Check::checksums).integer("run", "step"), 12'000);
}

TEST(Checkpoint, LeavesNothingWithoutCommit) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  {
    const NewCheckpoint checkpoint(folder, 1);
    write_small_file(checkpoint.path() / "model.safetensors", 1, 10);
    EXPECT_EQ(names_in(folder.path()), Names{".new-step-00000001"});
  }
  EXPECT_EQ(names_in(folder.path()), Names{});
}

TEST(Checkpoint, IsNotCommittedWithFilesOfAnotherSize) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  save_small(folder, 1);
  {
    NewCheckpoint checkpoint(folder, 2);
    StateFile state;
    state.files["model.safetensors"] = write_small_file(checkpoint.path() / "model.safetensors", 2, 10);
    state.files["model.safetensors"].whole.bytes.value += 1;
    expect_refusal([&] { checkpoint.commit(state); }, ErrorCode::corrupt, {"model.safetensors", "state.json records"});
  }
  EXPECT_EQ(names_in(folder.path()), (Names{"last", "step-00000001"}));
}

TEST(Checkpoint, ReplacesOneOfTheSameStep) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  save_small(folder, 5, 10);
  const fs::path path = save_small(folder, 5, 20);
  EXPECT_EQ(names_in(folder.path()), (Names{"last", "step-00000005"}));
  EXPECT_EQ(SafetensorsReader(path / "model.safetensors").header().tensors().back().count(), Count{20});
}

TEST(Checkpoints, AreListedNewestFirst) {
  const ScratchFolder run;
  EXPECT_TRUE(list_checkpoints(run.path()).empty());
  CheckpointFolder folder(run.path());
  for (const std::int64_t step : {9, 123'456'789, 10}) save_small(folder, step);
  for (const char* other : {"step-1", "step-0000001x", "steps", "unused-step-00000001", "step-000000011"})
    fs::create_directory(folder.path() / other);
  write_content(folder.path() / "step-00000007", "a file");
  std::vector<std::int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(run.path())) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{123'456'789, 10, 9}));
}

TEST(Checkpoints, AreKeptWhereALinkNamesThem) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  for (std::int64_t step = 1; step <= 5; ++step) save_small(folder, step);
  folder.link_best(2);
  EXPECT_EQ(folder.remove_all_but(2).size(), 2U);
  EXPECT_EQ(names_in(folder.path()), (Names{"best", "last", "step-00000002", "step-00000004", "step-00000005"}));
  folder.link_best(4);
  EXPECT_EQ(folder.remove_all_but(1), std::vector<fs::path>{folder.path() / "step-00000002"});
  EXPECT_EQ(fs::read_symlink(folder.path() / "best"), "step-00000004");
  expect_refusal([&] { folder.link_best(3); }, ErrorCode::invalid_argument, {"best", "step-00000003"});
  expect_refusal([&] { folder.remove_all_but(0); }, ErrorCode::invalid_argument, {"0", "at least 1"});
}

TEST(Checkpoints, AreNamedByFilesWhereThereAreNoSymbolicLinks) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  has_symbolic_links = false;
  for (std::int64_t step = 1; step <= 5; ++step) save_small(folder, step);
  folder.link_best(1);
  folder.link_best(2);
  EXPECT_EQ(folder.remove_all_but(2).size(), 2U);
  EXPECT_EQ(names_in(folder.path()), (Names{"best", "last", "step-00000002", "step-00000004", "step-00000005"}));
  EXPECT_EQ(content_of(folder.path() / "last"), "step-00000005\n");
  EXPECT_EQ(find_checkpoint("last", run.path()).path, folder.path() / "step-00000005");
  EXPECT_EQ(find_checkpoint("best", run.path()).path, folder.path() / "step-00000002");
  EXPECT_EQ(folder.continue_from(4).size(), 1U);
  EXPECT_EQ(linked_checkpoint(run.path(), "last")->step, 4);
  has_symbolic_links = true;
  save_small(folder, 6);
  EXPECT_EQ(fs::read_symlink(folder.path() / "last"), "step-00000006");
  for (const char* other : {"", "\n", "step-00000006", "../x\n", "step-00000007\n"}) {
    fs::remove(folder.path() / "best");
    write_content(folder.path() / "best", other);
    EXPECT_FALSE(linked_checkpoint(run.path(), "best")) << other;
  }
}

TEST(Checkpoints, TakeThePlaceOfAFolderOrAStaleLink) {
  for (const bool links : {true, false}) {
    const ScratchFolder run;
    CheckpointFolder folder(run.path());
    fs::create_directories(folder.path() / "last");
    fs::create_directories(folder.path() / ".link-best");
    write_content(folder.path() / ".link-best/x", "of something else");
    write_content(folder.path() / "last/state.json", "of a copy that has followed the link");
    fs::create_symlink("step-00000007", folder.path() / "best");
    has_symbolic_links = links;
    const fs::path path = save_small(folder, 1);
    folder.link_best(1);
    has_symbolic_links = true;
    EXPECT_EQ(names_in(folder.path()), (Names{"best", "last", "step-00000001", "unused-last"}));
    for (const char* link : {"last", "best"}) EXPECT_EQ(linked_checkpoint(run.path(), link)->path, path);
    EXPECT_TRUE(fs::exists(folder.path() / "unused-last/state.json"));
  }
}

TEST(Checkpoints, ThatAreDamagedDoNotPushOutGoodOnes) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  for (std::int64_t step = 1; step <= 4; ++step) save_small(folder, step);
  fs::resize_file(folder.path() / "step-00000004/model.safetensors", 100);
  fs::remove(folder.path() / "step-00000003/state.json");
  EXPECT_EQ(folder.remove_all_but(1), std::vector<fs::path>{folder.path() / "step-00000001"});
  EXPECT_EQ(newest_good_checkpoint(run.path()).path, folder.path() / "step-00000002");
}

TEST(Checkpoints, OfAContinuationThatIsGivenUpAreRenamed) {
  const ScratchFolder run;
  CheckpointFolder folder(run.path());
  for (std::int64_t step = 1; step <= 4; ++step) save_small(folder, step);
  folder.link_best(3);
  fs::create_directory(folder.path() / "unused-step-00000004");
  EXPECT_EQ(folder.continue_from(2),
            (std::vector<fs::path>{folder.path() / "unused-step-00000004-2", folder.path() / "unused-step-00000003"}));
  EXPECT_EQ(fs::read_symlink(folder.path() / "last"), "step-00000002");
  EXPECT_EQ(newest_good_checkpoint(run.path()).path, folder.path() / "step-00000002");
  verify_checkpoint(folder.path() / "best", Check::checksums);
  folder.remove_all_but(1);
  EXPECT_EQ(names_in(folder.path()), (Names{"best", "last", "step-00000002", "unused-step-00000003",
                                            "unused-step-00000004", "unused-step-00000004-2"}));
}

TEST(CheckpointFolder, PutsInOrderWhatACrashLeft) {
  const ScratchFolder run;
  {
    CheckpointFolder folder(run.path());
    save_small(folder, 1);
    save_small(folder, 2);
  }
  const fs::path path = checkpoints_of(run.path());
  fs::rename(path / "step-00000001", path / ".old-step-00000001");
  fs::create_directories(path / ".old-step-00000002");
  for (const char* name : {".new-step-00000003", ".trash-step-00000001"}) {
    fs::create_directory(path / name);
    write_content(path / name / "model.safetensors", "half");
  }
  fs::create_symlink("step-00000001", path / ".link-last");
  write_content(path / ".nfs0001", "not ours");
  const CheckpointFolder again(run.path());
  EXPECT_EQ(names_in(path), (Names{".nfs0001", "last", "step-00000001", "step-00000002"}));
  verify_checkpoint(path / "step-00000001", Check::checksums);
  verify_checkpoint(path / "step-00000002", Check::checksums);
}

TEST(CheckpointFolder, BelongsToOneProcess) {
  const ScratchFolder run;
  {
    const CheckpointFolder folder(run.path());
    expect_refusal([&] { const CheckpointFolder second(run.path()); }, ErrorCode::io,
                   {(run / "checkpoints").string(), "another run", "choose another folder"});
  }
  EXPECT_NO_THROW(CheckpointFolder(run.path()));
}

}  // namespace
}  // namespace lockstep::state
