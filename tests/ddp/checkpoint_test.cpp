// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "ddp/ranks.hpp"
#include "ddp/shared_folder.hpp"
#include "state/safetensors_file.hpp"

namespace lockstep::ddp {
namespace {

namespace fs = std::filesystem;

/// The state of a program's loop.
struct Loop {
  explicit Loop(ProcessGroup& group, float first = 0)
      : weight{first, first + 1, first + 2},
        bias{first + 3},
        velocity{first + 4, first + 5, first + 6, first + 7},
        parallel(group, {{"fc.weight", weight, d_weight}, {"fc.bias", bias, d_bias}}) {}
  void add_to(Checkpoint& checkpoint) {
    checkpoint.add(parallel).add("velocity", velocity, std::vector<std::int64_t>{2, 2}).add("step", step);
    checkpoint.add("epoch", epoch).add("best", best);
  }
  [[nodiscard]] std::vector<double> all() const {
    std::vector<double> values(weight.begin(), weight.end());
    values.insert(values.end(), {bias[0], velocity[0], velocity[3], static_cast<double>(step), 1.0 * epoch, best});
    return values;
  }

  std::vector<float> weight, bias, velocity, d_weight = {0, 0, 0}, d_bias = {0};
  std::int64_t step = 0;
  int epoch = 0;
  double best = 0;
  DataParallel parallel;
};

TEST(Checkpoint, RestoresParametersTensorsAndNumbersOnAllRanks) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    Loop saved(group, 1);
    saved.step = 40;
    saved.epoch = 3;
    saved.best = 0.1;
    {
      Checkpoint checkpoint(group, folder / "run");
      saved.add_to(checkpoint);
      EXPECT_EQ(checkpoint.restore(), std::nullopt) << "there is none yet";
      EXPECT_EQ(checkpoint.save(40), folder / "run" / "checkpoints" / "step-00000040");
    }
    Loop loop(group, 50);
    Checkpoint checkpoint(group, folder / "run");
    loop.add_to(checkpoint);
    EXPECT_EQ(checkpoint.restore(), 40);
    EXPECT_EQ(loop.all(), saved.all());
    if (!group.is_root()) return;
    const state::SafetensorsReader model(folder / "run" / "checkpoints/last/model.safetensors");
    EXPECT_EQ(model.header().tensors().size(), 2U) << "tensors of the loop are in a file of their own";
    EXPECT_GE(model.header().index_of("fc.weight"), 0);
  });
}

TEST(Checkpoint, KeepsTheNewestAndGoesOnFromTheNewestGoodOne) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    const fs::path checkpoints = folder / "run" / "checkpoints";
    Loop loop(group);
    Checkpoint checkpoint(group, folder / "run", 2);
    loop.add_to(checkpoint);
    for (const int step : {10, 20, 30}) {
      loop.step = step;
      loop.weight[0] = static_cast<float>(step);
      (void)checkpoint.save(step);
    }
    on_rank_zero(group, [&] {
      EXPECT_FALSE(fs::exists(checkpoints / "step-00000010"));
      std::ofstream(checkpoints / "step-00000030/tensors.safetensors", std::ios::app) << "x";
    });
    EXPECT_NE(message_of([&] { checkpoint.restore("last"); }).find("step-00000030/tensors.safetensors"),
              std::string::npos);
    EXPECT_EQ(loop.step, 30);
    EXPECT_EQ(checkpoint.restore(), 20);
    EXPECT_EQ(loop.step, 20);
    EXPECT_EQ(loop.weight[0], 20);
    on_rank_zero(group, [&] { EXPECT_TRUE(fs::exists(checkpoints / "unused-step-00000030")); });
  });
}

TEST(Checkpoint, OfAModelThatIsNotFiniteIsNotSaved) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    Loop loop(group);
    Checkpoint checkpoint(group, folder / "run");
    loop.add_to(checkpoint);
    loop.velocity[1] = std::numeric_limits<float>::infinity();  // the program knows what this means
    (void)checkpoint.save(1);
    loop.bias[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_NE(message_of([&] { (void)checkpoint.save(2); }).find("the tensor 'fc.bias' of the model has elements"),
              std::string::npos);
    loop.bias[0] = 0;
    EXPECT_EQ(checkpoint.restore(), 1);
  });
}

TEST(Checkpoint, OfAnotherProgramIsRefusedWithAllNamesThatDiffer) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    {
      Loop loop(group);
      Checkpoint checkpoint(group, folder / "run");
      loop.add_to(checkpoint);
      (void)checkpoint.save(5);
    }
    std::vector<float> weight = {9, 9}, other = {8};
    double best = 7;
    std::int64_t extra = 6;
    Checkpoint checkpoint(group, folder / "run");
    checkpoint.add_to_model("fc.weight", weight).add("other", other).add("best", best).add("extra", extra);
    const std::string message = message_of([&] { checkpoint.restore(); });
    for (const char* part :
         {"its tensor 'fc.weight' is float32 [3], the program's float32 [2]", "its tensor 'fc.bias' was not added",
          "it lacks the tensor 'other'", "its tensor 'velocity' was not added", "it lacks the number or text 'extra'",
          "its number or text 'epoch' was not added", "Nothing was changed"})
      EXPECT_NE(message.find(part), std::string::npos) << part << '\n' << message;
    EXPECT_EQ(weight[0] + other[0] + static_cast<float>(best), 24);
  });
}

TEST(Checkpoint, WhatDiffersBetweenRanksIsRefusedOnAll) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const SharedFolder folder(group);
    Checkpoint checkpoint(group, folder / "run");
    std::vector<float> values(static_cast<std::size_t>(group.rank().value == 1 ? 4 : 3));
    checkpoint.add("values", values);
    const std::string message = message_of([&] { (void)checkpoint.save(1); });
    EXPECT_NE(message.find("other tensors or numbers were added to the checkpoint than on rank 0"), std::string::npos)
        << message;
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  });
}

TEST(Checkpoint, RestoresNumbersOfEveryTypeAndTexts) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    bool flag = true;
    std::int8_t tiny = -128;
    std::uint16_t port = 65535;
    unsigned natural = 4'000'000'000U;
    long long wide = std::numeric_limits<long long>::min();
    std::uint64_t widest = std::numeric_limits<std::uint64_t>::max();
    float small = 0.1F;
    double endless = -std::numeric_limits<double>::infinity();
    std::string text = "a \"text\",\nof Zürich";
    const auto add_all = [&](Checkpoint& checkpoint) {
      checkpoint.add("flag", flag).add("tiny", tiny).add("port", port).add("natural", natural).add("wide", wide);
      checkpoint.add("widest", widest).add("small", small).add("endless", endless).add("text", text);
    };
    {
      Checkpoint checkpoint(group, folder / "run");
      add_all(checkpoint);
      (void)checkpoint.save(1);
    }
    flag = false;
    tiny = 0;
    port = 0;
    natural = 0;
    wide = 0;
    widest = 0;
    small = 0;
    endless = 0;
    text = "";
    Checkpoint checkpoint(group, folder / "run");
    add_all(checkpoint);
    EXPECT_EQ(checkpoint.restore(), 1);
    EXPECT_TRUE(flag);
    EXPECT_EQ(tiny, -128);
    EXPECT_EQ(port, 65535);
    EXPECT_EQ(natural, 4'000'000'000U);
    EXPECT_EQ(wide, std::numeric_limits<long long>::min());
    EXPECT_EQ(widest, std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(small, 0.1F);
    EXPECT_EQ(endless, -std::numeric_limits<double>::infinity());
    EXPECT_EQ(text, "a \"text\",\nof Zürich");
    text = "\xff";
    EXPECT_NE(message_of([&] { (void)checkpoint.save(2); }).find("the text 'text' is not UTF-8"), std::string::npos);
  });
}

TEST(Checkpoint, RefusesNumbersThatDoNotFitBeforeItChangesAnything) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    std::int64_t first = 7;
    std::int64_t second = std::int64_t{1} << 31;
    double third = 0.5;
    {
      Checkpoint checkpoint(group, folder / "run");
      checkpoint.add("first", first).add("second", second).add("third", third);
      (void)checkpoint.save(1);
    }
    int one = 1;
    int two = 2;
    bool three = true;
    Checkpoint checkpoint(group, folder / "run");
    checkpoint.add("first", one).add("second", two).add("third", three);
    const std::string message = message_of([&] { (void)checkpoint.restore("last"); });
    EXPECT_NE(message.find("its 'second' is 2147483648, which does not fit the program's int32"), std::string::npos)
        << message;
    EXPECT_NE(message.find("its 'third' is the real number 0.500000, which does not fit the program's bool"),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find("'first'"), std::string::npos) << message;
    EXPECT_EQ(one, 1);
    EXPECT_EQ(two, 2);
  });
}

TEST(Checkpoint, ThatCannotBeWrittenIsAnErrorOnAllRanksAndOlderOnesStay) {
  on_every_rank([](ProcessGroup& group) {
    const SharedFolder folder(group);
    const fs::path checkpoints = folder / "run" / "checkpoints";
    double number = 4;
    Checkpoint checkpoint(group, folder / "run");
    checkpoint.add("number", number);
    (void)checkpoint.save(1);
    on_rank_zero(group, [&] { fs::rename(checkpoints, folder / "aside"); });
    EXPECT_NE(message_of([&] { (void)checkpoint.save(2); }).find("cannot make the folder '"), std::string::npos);
    on_rank_zero(group, [&] { fs::rename(folder / "aside", checkpoints); });
    number = 5;
    EXPECT_EQ(checkpoint.restore(), 1);
    EXPECT_EQ(number, 4);
    EXPECT_NE(message_of([&] { (void)checkpoint.save(-1); }).find("-1"), std::string::npos);
    std::vector<float> pair(2);
    EXPECT_NE(message_of([&] { checkpoint.add("number", number); }).find("a number or text 'number'"),
              std::string::npos);
    EXPECT_NE(message_of([&] { checkpoint.add("pair", pair, std::vector<std::int64_t>{3}); }).find("float32 [3]"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep::ddp
