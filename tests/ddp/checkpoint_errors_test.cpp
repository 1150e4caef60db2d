// SPDX-License-Identifier: Apache-2.0
// Every error that lockstep/ddp/checkpoint.hpp promises.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "ddp/ranks.hpp"
#include "ddp/shared_folder.hpp"
#include "lockstep/ddp/checkpoint.hpp"
#include "support/errors.hpp"

namespace lockstep::ddp {
namespace {

using Extents = std::vector<std::int64_t>;

TEST(CheckpointErrors, OfTheConstructor) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    expect_error_on_every_rank([&] { Checkpoint(group, folder / "run", 0); }, ErrorCode::invalid_argument, {"keep"});
    on_rank_zero(group, [&] { std::ofstream(folder / "file") << "no folder"; });
    expect_error_on_every_rank([&] { Checkpoint(group, folder / "file"); }, ErrorCode::io, {"file"});
    const Checkpoint first(group, folder / "run");
    expect_error_on_every_rank([&] { Checkpoint(group, folder / "run"); }, ErrorCode::io, {"run"});
  });
}

TEST(CheckpointErrors, OfWhatIsAdded) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    std::vector<float> tensor(6), d_tensor(6);
    const DataParallel parallel(group, {{"weight", tensor, d_tensor}});
    std::int64_t whole = 0;
    double real = 0;
    std::string text;
    Checkpoint checkpoint(group, folder / "run");
    checkpoint.add(parallel).add("tensor", tensor, Extents{2, 3}).add("number", whole);
    const auto invalid = ErrorCode::invalid_argument;
    expect_error([&] { checkpoint.add(parallel); }, invalid, {"'weight'"});
    expect_error([&] { checkpoint.add_to_model("weight", tensor); }, invalid, {"'weight'"});
    expect_error([&] { checkpoint.add("tensor", tensor); }, invalid, {"'tensor'"});
    expect_error([&] { checkpoint.add_to_model("other", tensor, Extents{2, 2}); }, invalid, {"'other'", "[2, 2]"});
    expect_error([&] { checkpoint.add("other", tensor, Extents{7}); }, invalid, {"'other'", "[7]"});
    const Buffer on_gpu{tensor.data(), {6}, DType::float32, MemoryKind::device};
    expect_error([&] { checkpoint.add_to_model("other", on_gpu); }, ErrorCode::unsupported, {"'other'"});
    expect_error([&] { checkpoint.add("other", on_gpu); }, ErrorCode::unsupported, {"'other'"});
    expect_error([&] { checkpoint.add("number", whole); }, invalid, {"'number'"});
    expect_error([&] { checkpoint.add("number", real); }, invalid, {"'number'"});
    expect_error([&] { checkpoint.add("number", text); }, invalid, {"'number'"});
  });
}

TEST(CheckpointErrors, OfSaving) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    const auto checkpoints = folder / "run" / "checkpoints";
    std::vector<float> weight = {1, 2};
    std::string text = "a text";
    Checkpoint checkpoint(group, folder / "run");
    checkpoint.add_to_model("weight", weight).add("text", text);
    (void)checkpoint.save(1);
    text = "\xff";
    expect_error_on_every_rank([&] { (void)checkpoint.save(2); }, ErrorCode::invalid_argument, {"'text'", "UTF-8"});
    text = "another text";
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      weight[1] = bad;
      const bool is_root = group.is_root();
      const auto save = [&] { (void)checkpoint.save(2); };
      expect_error_on_every_rank(save, ErrorCode::diverged, {"'weight'"});
      if (!is_root) weight[1] = 2;
      expect_error_on_every_rank(save, ErrorCode::diverged, {"'weight'"});  // rank 0's values are saved
    }
    weight[1] = 3;
    on_rank_zero(group, [&] { std::filesystem::rename(checkpoints, folder / "aside"); });
    expect_error_on_every_rank([&] { (void)checkpoint.save(2); }, ErrorCode::io, {"run"});
    on_rank_zero(group, [&] { std::filesystem::rename(folder / "aside", checkpoints); });
    EXPECT_EQ(checkpoint.restore(), 1) << "the older one stays";
    EXPECT_EQ(weight[1], 2);
    (void)checkpoint.save(2);  // the program may go on
  });
}

TEST(CheckpointErrors, OfRestoring) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    std::vector<float> weight = {1, 2};
    std::int64_t number = 300;
    {
      Checkpoint checkpoint(group, folder / "run");
      checkpoint.add_to_model("weight", weight).add("number", number);
      expect_error_on_every_rank([&] { (void)checkpoint.restore("last"); }, ErrorCode::io, {"last"});
      const std::string nowhere = (folder / "nowhere").string();
      expect_error_on_every_rank([&] { (void)checkpoint.restore(nowhere); }, ErrorCode::io, {nowhere});
      (void)checkpoint.save(1);
    }
    {
      std::int8_t small = 7;
      std::vector<float> longer(3), more(1);
      Checkpoint checkpoint(group, folder / "run");
      checkpoint.add_to_model("weight", longer).add("more", more).add("number", small);
      expect_error_on_every_rank([&] { (void)checkpoint.restore(); }, ErrorCode::mismatch,
                                 {"'weight'", "'more'", "'number' is 300"});
      EXPECT_EQ(small, 7);
      EXPECT_EQ(longer, std::vector<float>(3)) << "nothing has changed";
    }
    Checkpoint checkpoint(group, folder / "run");
    checkpoint.add_to_model("weight", weight).add("number", number);
    const auto file = folder / "run" / "checkpoints/step-00000001/model.safetensors";
    on_rank_zero(group, [&] { std::ofstream(file, std::ios::app) << "x"; });
    expect_error_on_every_rank([&] { (void)checkpoint.restore("last"); }, ErrorCode::corrupt, {file.string()});
    const auto state = folder / "run" / "checkpoints/step-00000001/state.json";
    on_rank_zero(group, [&] {
      std::stringstream text;
      text << std::ifstream(state).rdbuf();
      std::string other = text.str();
      std::ofstream(state) << other.replace(other.find("\"version\": 2"), 12, "\"version\": 1");
    });
    expect_error_on_every_rank([&] { (void)checkpoint.restore(); }, ErrorCode::unsupported, {state.string()});
  });
}

TEST(CheckpointErrors, OfRanksThatAddOtherThings) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const SharedFolder folder(group);
    const int odd = group.size() - 1;
    std::vector<float> values(static_cast<std::size_t>(group.rank().value == odd ? 4 : 3));
    Checkpoint checkpoint(group, folder / "run");
    checkpoint.add("values", values);
    const auto peers_of = [](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
        EXPECT_TRUE(error.is_on_every_rank()) << error.what();
        return error.context().peers;
      }
      return std::vector<int>{};
    };
    EXPECT_EQ(peers_of([&] { (void)checkpoint.save(1); }), std::vector<int>{odd});
    EXPECT_EQ(peers_of([&] { (void)checkpoint.restore(); }), std::vector<int>{odd});
  });
}

}  // namespace
}  // namespace lockstep::ddp
