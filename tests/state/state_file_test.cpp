// SPDX-License-Identifier: Apache-2.0
#include "state/state_file.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "state/scratch_folder.hpp"

namespace lockstep::state {
namespace {

StateFile example() {
  StateFile state;
  state.step = 24;
  state.sections["run"] = {{"epoch", std::int64_t{3}}, {"loss", 1.0}, {"sum", 0.1}};
  state.sections["options"] = {{"model", "resnet20 \"ü\"\n"}, {"empty", ""}};
  state.sections["nothing"] = {};
  state.files["model.safetensors"] = {{0x0123abcd, {123}}, {{"conv.weight", 7}, {"fc", 0xffffffff}}};
  state.files["none"] = {{0, {0}}, {}};
  return state;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_bad(const std::string& text, std::vector<std::string> parts, ErrorCode code = ErrorCode::corrupt) {
  parts.emplace_back("'a/state.json'");
  expect_refusal([&] { StateFile::parse(text, "'a/state.json'"); }, code, parts);
}

TEST(StateFile, IsWhatWasWritten) {
  const StateFile state = example();
  EXPECT_EQ(StateFile::parse(state.text(), "x"), state);
  EXPECT_EQ(StateFile::parse(state.text(), "x").text(), state.text());
  EXPECT_EQ(StateFile::parse(StateFile().text(), "x"), StateFile());
  EXPECT_LT(state.text().find("\"epoch\""), state.text().find("\"loss\""));
}

TEST(StateFile, IsRefusedIfOneCharacterHasChanged) {
  const std::string text = example().text();
  int digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = text[i] == '9' ? '8' : static_cast<char>(text[i] + 1);
    EXPECT_THROW(StateFile::parse(changed, "x"), Error) << changed;
    digits += text[i] >= '0' && text[i] <= '9' ? 1 : 0;
  }
  EXPECT_GT(digits, 40);
  for (const auto& [from, to] :
       {std::pair("\"epoch\": 3", "\"epoch\": 4"), {"\"step\": 24", "\"step\": 25"}, {"0.1", "0.2"}})
    expect_bad(replaced(text, from, to), {"the text has the CRC-32 ", "damaged or was changed", "another checkpoint"});
  expect_bad(replaced(text, "{\n  \"crc32\"", "{ \"crc32\""), {"\"crc32\" of the text does not begin it"});
  expect_bad(replaced(text, "\"step\": 24", "\"step\": -1"), {"\"step\" is missing or negative"});
  expect_bad(replaced(text, "\"step\": 24", "\"step\": 2.5"), {"\"step\""});
}

TEST(StateFile, KeepsTheBitsOfRealNumbers) {
  using Limits = std::numeric_limits<double>;
  std::vector<double> numbers = {0.0,
                                 -0.0,
                                 1.0,
                                 1e22,
                                 1e300,
                                 Limits::max(),
                                 Limits::lowest(),
                                 Limits::min(),
                                 Limits::denorm_min(),
                                 Limits::infinity(),
                                 -Limits::infinity(),
                                 0.1,
                                 1.0 / 3};
  std::mt19937_64 generator(1);
  while (numbers.size() < 2000) {
    const auto number = std::bit_cast<double>(generator());
    if (!std::isnan(number)) numbers.push_back(number);
  }
  StateFile state;
  for (std::size_t i = 0; i < numbers.size(); ++i) state.sections["s"]["k" + std::to_string(i)] = numbers[i];
  state.sections["s"]["nan"] = Limits::quiet_NaN();
  const StateFile again = StateFile::parse(state.text(), "x");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(again.real("s", "k" + std::to_string(i))),
              std::bit_cast<std::uint64_t>(numbers[i]));
  }
  EXPECT_TRUE(std::isnan(again.real("s", "nan")));
}

TEST(StateFile, KeepsWholeNumbersOf64Bits) {
  StateFile state;
  state.sections["s"] = {{"a", std::numeric_limits<std::int64_t>::max()},
                         {"b", std::numeric_limits<std::int64_t>::min()}};
  EXPECT_EQ(StateFile::parse(state.text(), "x"), state);
}

TEST(StateFile, NamesAKeyThatIsMissingOrOfAnotherKind) {
  const StateFile state = example();
  EXPECT_EQ(state.integer("run", "epoch"), 3);
  EXPECT_EQ(state.real("run", "epoch"), 3.0);
  EXPECT_EQ(state.words("options", "empty"), "");
  const auto refused = [](const auto& action, const std::string& key) {
    expect_refusal(action, ErrorCode::corrupt, {"state.json", key, "another checkpoint"});
  };
  refused([&] { (void)state.integer("run", "steps"); }, "\"run\".\"steps\"");
  refused([&] { (void)state.integer("runs", "epoch"); }, "\"runs\".\"epoch\"");
  refused([&] { (void)state.integer("run", "loss"); }, "\"run\".\"loss\" is 1.0, and not a whole number");
  refused([&] { (void)state.real("options", "model"); }, "\"options\".\"model\"");
  refused([&] { (void)state.words("run", "epoch"); }, "\"run\".\"epoch\" is 3, and not a text");
}

TEST(StateFile, IgnoresUnknownKeysOfLaterRevisionsOnly) {
  const std::string more = replaced(example().text(), "\"sections\"", R"("later": {"a": {"b": [1]}}, "sections")");
  expect_bad(more, {"\"later\"", "not known"});
  EXPECT_EQ(StateFile::parse(StateFile::sealed(replaced(more, "\"revision\": 0", "\"revision\": 1")), "x"), example());
  const std::string in_file = replaced(example().text(), "\"bytes\"", R"("sha": "x", "bytes")");
  expect_bad(in_file, {"\"files\".\"model.safetensors\".\"sha\"", "not known"});
  EXPECT_EQ(StateFile::parse(StateFile::sealed(replaced(in_file, "\"revision\": 0", "\"revision\": 9")), "x"),
            example());
  for (const std::string other : {"1", "3"})
    expect_bad(replaced(example().text(), "\"version\": 2", "\"version\": " + other),
               {"\"version\" is " + other, "use the lockstep that wrote the file", "weights in model.safetensors"},
               ErrorCode::unsupported);
}

TEST(StateFile, NamesWhatIsWrong) {
  const std::string text = example().text();
  expect_bad("", {"not JSON"});
  expect_bad(text.substr(0, text.size() / 2), {"not JSON"});
  expect_bad(text + "{}", {"not JSON"});
  expect_bad("3", {"where an object should be"});
  expect_bad("{}", {"\"format\""});
  expect_bad(replaced(text, "lockstep checkpoint", "other"), {"\"format\""});
  expect_bad(replaced(text, "\"revision\": 0,", ""), {"\"revision\""});
  expect_bad(replaced(text, "\"revision\": 0", "\"revision\": 0.5"), {"\"revision\""});
  expect_bad(replaced(text, "\"version\": 2", "\"version\": 2, \"version\": 2"), {"\"version\"", "twice"});
  expect_bad(replaced(text, "\"sections\"", "\"section\""), {"\"section\""});
  expect_bad(replaced(text, "\"epoch\": 3", "\"epoch\": 3, \"epoch\": 4"), {"\"sections\".\"run\".\"epoch\"", "twice"});
  expect_bad(replaced(text, "\"nothing\"", "\"run\""), {"\"sections\".\"run\"", "twice"});
  expect_bad(replaced(text, "\"nothing\": {}", "\"nothing\": {}, \"nothing\": {}"), {"nothing", "twice"});
  expect_bad(replaced(text, "\"epoch\": 3", "\"epoch\": true"), {"\"sections\".\"run\".\"epoch\"", "true"});
  expect_bad(replaced(text, "\"epoch\": 3", "\"epoch\": 9223372036854775808"), {"\"epoch\"", "64 bits"});
  expect_bad(replaced(text, "\"epoch\": 3", "\"epoch\": [3]"), {"\"epoch\"", "not known"});
  expect_bad(replaced(text, "\"epoch\": 3", "\"epoch\": {\"a\": 3}"), {"\"epoch\"", "not known"});
  expect_bad(replaced(text, "0123abcd", "0123abc"), {"\"crc32\"", "8 hexadecimal digits"});
  expect_bad(replaced(text, "ffffffff", "fffffff-"), {"\"tensors\".\"fc\"", "8 hexadecimal digits"});
  expect_bad(replaced(text, "\"bytes\": 123", "\"bytes\": -1"), {"\"bytes\"", "number of bytes"});
  expect_bad(replaced(text, "\"bytes\": 123,", ""), {"\"model.safetensors\"", "lacks"});
  expect_bad(replaced(text, "\"none\"", "\"model.safetensors\""), {"\"model.safetensors\"", "twice"});
}

}  // namespace
}  // namespace lockstep::state
