// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "state/scratch_folder.hpp"
#include "state/small_checkpoint.hpp"
#include "state/verify.hpp"

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

/// A run with checkpoints of the steps 1 to 3; `best` names 1.
class FindCheckpoint : public testing::Test {
 protected:
  FindCheckpoint() {
    CheckpointFolder folder(run_.path());
    for (std::int64_t step = 1; step <= 3; ++step) save_small(folder, step, 50);
    folder.link_best(1);
  }
  [[nodiscard]] fs::path checkpoint(int step) const { return checkpoints_of(run_.path()) / checkpoint_name(step); }
  [[nodiscard]] std::optional<fs::path> found(const std::string& wish) const {
    return find_checkpoint(wish, run_.path()).path;
  }

  ScratchFolder run_;
};

/// Flips a bit of the byte that is so many bytes before the end.
void flip_bit(const fs::path& path, int from_the_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = [&]() -> std::fstream& { return file.seekg(-from_the_end, std::ios::end), file; };
  const int byte = at().peek();
  at().put(static_cast<char>(byte ^ 1));
}

TEST_F(FindCheckpoint, ByLinkOrPathOrTheNewest) {
  EXPECT_EQ(found("last"), checkpoint(3));
  EXPECT_EQ(found("best"), checkpoint(1));
  EXPECT_EQ(found("auto"), checkpoint(3));
  EXPECT_EQ(found(checkpoint(2).string()), checkpoint(2));
  const ScratchFolder other;
  EXPECT_EQ(find_checkpoint(run_.path().string(), other.path()).path, checkpoint(3));
  EXPECT_EQ(find_checkpoint("auto", other.path()).path, std::nullopt);
  const auto refused = [&](const std::string& wish, const std::string& part) {
    expect_refusal([&] { find_checkpoint(wish, other.path()); }, ErrorCode::io, {part});
  };
  refused("last", "no checkpoint 'last'");
  refused("best", "no checkpoint 'best', which the first evaluation makes; give 'last', ");
  refused("lsat", "there is no checkpoint 'lsat'");
  fs::create_symlink("loop", other.path() / "loop");
  refused((other.path() / "loop").string(), "loop' cannot be read: Too many levels of symbolic links");
  refused(checkpoints_of(run_.path()).string(), "' is no checkpoint; give 'last'");
  refused((checkpoint(1) / "model.safetensors").string(), "' is no checkpoint; give the folder that the file is in");
}

TEST_F(FindCheckpoint, TheNewestGoodOneWithTheReasonsWhyNewerOnesWereRefused) {
  flip_bit(checkpoint(3) / "optimizer.safetensors", 20);  // the last bytes are the weight's
  fs::remove(checkpoint(2) / "model.safetensors");
  const FoundCheckpoint found = find_checkpoint("auto", run_.path());
  EXPECT_EQ(found.path, checkpoint(1));
  ASSERT_EQ(found.refused.size(), 2U);
  EXPECT_NE(found.refused[0].find("step-00000003/optimizer.safetensors' has the CRC-32"), std::string::npos);
  EXPECT_NE(found.refused[0].find("in tensor 'weight'"), std::string::npos) << found.refused[0];
  EXPECT_NE(found.refused[1].find("step-00000002/model.safetensors': No such file"), std::string::npos);
  fs::resize_file(checkpoint(1) / "state.json", 50);
  EXPECT_EQ(find_checkpoint("auto", run_.path()).path, std::nullopt);
  EXPECT_EQ(find_checkpoint("auto", run_.path()).refused.size(), 3U);
}

TEST_F(FindCheckpoint, RefusesADamagedOneByName) {
  const auto expect_damage = [&](const std::vector<std::string>& parts) {
    expect_refusal([&] { find_checkpoint("last", run_.path()); }, ErrorCode::corrupt, parts);
  };
  const fs::path model = checkpoint(3) / "model.safetensors";
  const fs::path state = checkpoint(3) / "state.json";
  const std::string good_model = content_of(model);
  const std::string good_state = content_of(state);
  for (int byte = 1; byte <= static_cast<int>(good_model.size()); ++byte) {  // header and tensors
    flip_bit(model, byte);
    EXPECT_NE(why_refused(checkpoint(3), Check::checksums).find("model.safetensors"), std::string::npos) << byte;
    flip_bit(model, byte);
  }
  fs::resize_file(model, good_model.size() - 1);
  expect_damage({"model.safetensors", "bytes, and state.json records"});
  write_content(model, good_model + "x");
  expect_damage({"model.safetensors", "bytes, and state.json records"});
  write_content(model, good_model);
  const auto write_state = [&](const std::function<void(StateFile&)>& change) {
    StateFile changed = StateFile::parse(good_state, "x");
    change(changed);
    write_content(state, changed.text());
  };
  const std::string file = "model.safetensors";
  write_state([&](StateFile& of) {
    auto tensor = of.files[file].tensors.extract("bias");
    tensor.key() = "base";
    of.files[file].tensors.insert(std::move(tensor));
  });
  expect_damage({"model.safetensors", "'bias'", "does not record"});
  write_state([&](StateFile& of) { of.files[file].tensors["extra"] = 0; });
  expect_damage({"model.safetensors", "2 tensors, and state.json records 3"});
  write_state([&](StateFile& of) { of.files["../xx.safetensors"] = of.files[file]; });
  expect_damage({"state.json", "outside the checkpoint"});
  write_state([](StateFile& of) { of.files.clear(); });
  expect_damage({".safetensors'", "is a file that state.json does not record"});
  std::string changed = good_state;
  write_content(state, changed.replace(changed.find("\"step\": 3"), 9, "\"step\": 4"));
  expect_damage({"state.json'", "the text has the CRC-32 "});
  write_content(state, good_state);
  EXPECT_EQ(found("last"), checkpoint(3));
}

/// Nothing is wrong with it, so a run that would start afresh instead would throw it away.
TEST_F(FindCheckpoint, OneOfAnotherVersionIsAnErrorForAutoToo) {
  const fs::path state = checkpoint(3) / "state.json";
  std::string text = content_of(state);
  write_content(state, text.replace(text.find("\"version\": 2"), 12, "\"version\": 1"));
  expect_refusal([&] { (void)found("auto"); }, ErrorCode::unsupported, {"step-00000003", "\"version\" is 1"});
  EXPECT_EQ(found(checkpoint(2).string()), checkpoint(2));
}

/// By its name, such a copy would be the newest one.
TEST_F(FindCheckpoint, ACopyWithTheNameOfAnotherStepDoesNotCount) {
  fs::copy(checkpoint(2), checkpoint(9));
  fs::copy(checkpoint(2), run_ / "mine");
  EXPECT_EQ(found("auto"), checkpoint(3));
  EXPECT_EQ(found((run_ / "mine").string()), run_ / "mine") << "a copy with a name of its own is good";
  for (const std::string& wish : {checkpoint(9).string(), checkpoint(9).string() + "/"})
    expect_refusal([&] { find_checkpoint(wish, run_.path()); }, ErrorCode::corrupt,
                   {"step-00000009", "has the state of step 2", "call it 'step-00000002'"});
}

}  // namespace
}  // namespace lockstep::state
