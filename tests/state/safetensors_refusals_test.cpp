// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "state/safetensors.hpp"
#include "state/safetensors_file.hpp"
#include "state/scratch_folder.hpp"

namespace lockstep::state {
namespace {

/// Returns a file: the length of the header, the header, and so many bytes.
std::string file_with(const std::string& header, std::size_t bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + std::string(bytes, 'x');
}

SafetensorsHeader parse(const std::string& file) {
  return SafetensorsHeader::parse(file, {static_cast<std::int64_t>(file.size())}, "'some.safetensors'");
}

void expect_corrupt(const std::string& header, std::size_t bytes, std::vector<std::string> parts) {
  parts.emplace_back("some.safetensors");
  parts.emplace_back("another copy");
  expect_refusal([&] { parse(file_with(header, bytes)); }, ErrorCode::corrupt, parts);
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "F32") {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}";
}

TEST(SafetensorsRefusals, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(parse(file_with("{}", 0)).tensors().empty());
  const auto header = parse(file_with("{" + tensor("b", "1", "4,8") + ", \n" + tensor("a", "", "0,4") + R"(,
    "__metadata__":{"x":"y"}, )" + tensor("c", "0,9223372036854775807,9223372036854775807", "4,4") +
                                          "}   ",
                                      8));
  ASSERT_EQ(header.tensors().size(), 3U);
  EXPECT_EQ(header.tensors()[0].name, "a");
  EXPECT_EQ(header.tensors()[1].name, "c");
  EXPECT_EQ(header.tensors()[1].count(), Count{0});
  EXPECT_EQ(header.tensors()[2].name, "b");
  EXPECT_EQ(header.metadata().at("x"), "y");
}

TEST(SafetensorsRefusals, DescribesTensorsOfOtherDtypesIfAskedAndChecksTheirRanges) {
  const auto described = [](const std::string& header, std::size_t bytes) {
    const std::string file = file_with(header, bytes);
    return SafetensorsHeader::parse(file, {static_cast<std::int64_t>(file.size())}, "'some.safetensors'",
                                    ForeignTensors::describe);
  };
  for (const std::string dtype : {"U64", "U32", "F8_E4M3", "F4", "E8M0"}) {
    const std::string header = "{" + tensor("a", "1", "6,10") + "," + tensor("mask", "2,3", "0,6", dtype) + "}";
    const auto found = described(header, 10);
    ASSERT_EQ(found.tensors().size(), 2U) << dtype;
    EXPECT_EQ(found.tensors()[0].foreign, dtype + " [2, 3]");
    EXPECT_EQ(found.tensors()[0].bytes(), Bytes{6});
    EXPECT_EQ(found.tensors()[1].foreign, "");
    expect_refusal([&] { parse(file_with(header, 10)); }, ErrorCode::unsupported, {"'mask'", dtype});
  }
  const std::string gap = "{" + tensor("a", "1", "6,10") + "," + tensor("mask", "2,2", "0,4", "U64") + "}";
  expect_refusal([&] { described(gap, 10); }, ErrorCode::corrupt, {"'a'", "gap"});
}

TEST(SafetensorsRefusals, NamesTheTensorOfABadRange) {
  expect_corrupt("{" + tensor("a", "2", "0,8") + "," + tensor("b", "1", "4,8") + "}", 8, {"'b'", "inside the tensor"});
  expect_corrupt("{" + tensor("a", "1", "0,4") + "," + tensor("b", "1", "8,12") + "}", 12, {"'b'", "gap"});
  expect_corrupt("{" + tensor("a", "1", "4,8") + "}", 8, {"'a'", "gap"});
  expect_corrupt("{" + tensor("a", "1", "4,0") + "}", 4, {"'a'", "no range"});
  expect_corrupt("{" + tensor("a", "1", "-4,0") + "}", 4, {"'a'", "no range"});
  expect_corrupt("{" + tensor("a", "1", "0,4,8") + "}", 8, {"'a'", "no range"});
  expect_corrupt("{" + tensor("a", "1", "0") + "}", 4, {"'a'", "no range"});
  expect_corrupt("{" + tensor("a", "2", "0,4") + "}", 4, {"'a'", "8 bytes by its shape", "4 by its data_offsets"});
  expect_corrupt("{" + tensor("a", "2", "0,8") + "}", 7, {"'a'", "ends at 8", "has 7 bytes"});
  expect_corrupt("{" + tensor("a", "1", "0,4") + "}", 5, {"1 bytes follow"});
  expect_corrupt("{}", 1, {"1 bytes follow"});
  expect_corrupt("{" + tensor("a", "2305843009213693952", "0,9223372036854775807") + "}", 4, {"'a'", "2^63"});
  expect_corrupt("{" + tensor("a", "4294967296,4294967296", "0,4") + "}", 4, {"'a'", "2^63"});
  expect_corrupt("{" + tensor("a", "-1,-1", "0,4") + "}", 4, {"'a'", "negative extent"});
}

TEST(SafetensorsRefusals, NamesNamesThatOccurTwice) {
  expect_corrupt("{" + tensor("a", "1", "0,4") + "," + tensor("a", "1", "4,8") + "}", 8, {"'a' is there twice"});
  expect_corrupt(R"({"__metadata__":{},"__metadata__":{}})", 0, {"__metadata__", "twice"});
  expect_corrupt(R"({"__metadata__":{"x":"1","x":"2"}})", 0, {"x", "twice"});
  expect_corrupt(R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4,
                 {"\"a\".\"dtype\"", "twice"});
  expect_corrupt("{" + tensor("", "1", "0,4") + "}", 4, {"empty name"});
}

TEST(SafetensorsRefusals, NamesADtypeThatLockstepLacks) {
  expect_refusal([] { parse(file_with("{" + tensor("mask", "4", "0,4", "U64") + "}", 4)); }, ErrorCode::unsupported,
                 {"some.safetensors", "'mask'", "'U64'", "convert the tensor"});
}

TEST(SafetensorsRefusals, NamesWhatIsNoHeader) {
  expect_corrupt(R"({"a":{"dtype":"F32","shape":[]}})", 0, {"'a'", "lacks"});
  expect_corrupt(R"({"a":{}})", 0, {"'a'", "lacks"});
  expect_corrupt(R"({"a":3})", 0, {"\"a\""});
  expect_corrupt(R"({"a":[0,4]})", 0, {"\"a\"", "list"});
  expect_corrupt(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, {"\"a\".\"shape\"", "1.5"});
  expect_corrupt(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, {"\"a\".\"shape\""});
  expect_corrupt(R"({"a":{"dtype":"F32","shape":[{}],"data_offsets":[0,4]}})", 4, {"\"a\".\"shape\""});
  expect_corrupt(R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, {"\"a\".\"shape\""});
  expect_corrupt(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, {"64 bits"});
  expect_corrupt(R"({"a":{"dtype":["F32"],"shape":[],"data_offsets":[0,4]}})", 4, {"\"a\".\"dtype\""});
  expect_corrupt(R"({"a":{"dtype":null,"shape":[],"data_offsets":[0,4]}})", 4, {"null"});
  expect_corrupt(R"({"a":{"dtype":true,"shape":[],"data_offsets":[0,4]}})", 4, {"true or false"});
  expect_corrupt(R"({"a":{"kind":"F32","shape":[],"data_offsets":[0,4]}})", 4, {"\"a\".\"kind\""});
  expect_corrupt(R"({"a":{"b":{"c":{}}}})", 0, {"\"a\".\"b\"", "too deep"});
  expect_corrupt(R"({"__metadata__":{"x":1}})", 0, {"\"__metadata__\".\"x\""});
  expect_corrupt(R"({"__metadata__":{"x":[]}})", 0, {"\"__metadata__\".\"x\""});
  expect_corrupt("[]", 0, {"'{'"});
  expect_corrupt("", 0, {"'{'"});
  expect_corrupt(" {}", 0, {"'{'"});
  expect_corrupt("{} {}", 0, {"not JSON from byte 4"});
  expect_corrupt("{\"a\":", 0, {"not JSON"});
  expect_corrupt("{\"\xff\":{}}", 0, {"not JSON"});
}

TEST(SafetensorsRefusals, NamesALengthBeyondTheFileOrTheLimit) {
  for (const std::size_t size : {0, 1, 7}) {
    expect_refusal([size] { parse(std::string(size, '\0')); }, ErrorCode::corrupt, {"length of the header alone"});
  }
  std::string beyond = file_with("{}", 0);
  beyond[0] = 3;
  expect_refusal([&] { parse(beyond); }, ErrorCode::corrupt, {"3 bytes", "room for 2", "no safetensors file"});
  beyond[7] = '\x80';
  expect_refusal([&] { parse(beyond); }, ErrorCode::corrupt, {"9223372036854775811 bytes"});
  // A sparse file that has room for such a header.
  const ScratchFolder folder;
  write_content(folder / "large", std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10));
  std::filesystem::resize_file(folder / "large", 200'000'000);
  expect_refusal([&] { SafetensorsReader(folder / "large"); }, ErrorCode::corrupt,
                 {"large", "100000001 bytes", "room for 100000000"});
}

TEST(SafetensorsRefusals, NamesAPathThatIsNoFile) {
  const ScratchFolder folder;
  expect_refusal([&] { SafetensorsReader(folder / "missing"); }, ErrorCode::io, {"missing", "No such file"});
  expect_refusal([&] { SafetensorsReader(folder.path()); }, ErrorCode::io, {folder.path().string(), "directory"});
  expect_refusal([] { SafetensorsReader("/dev/zero"); }, ErrorCode::io, {"/dev/zero", "regular file"});
}

}  // namespace
}  // namespace lockstep::state
