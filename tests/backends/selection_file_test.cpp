// SPDX-License-Identifier: Apache-2.0
#include "backends/selection_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;
using collectives::SelectionTable;
using collectives::TableEntry;

SelectionTable example() {
  SelectionTable table;
  table.add({CollectiveKind::all_reduce, {2, 5, 2, 3}, {0}, {4096}, {Algorithm::recursive_doubling, {131072}, 2, 8}});
  table.add(
      {CollectiveKind::all_reduce, {2, 5, 2, 3}, {4096}, TableEntry::no_end, {Algorithm::double_tree, {65536}, 4}});
  table.add({CollectiveKind::broadcast, {1, 2, 2, 2}, {0}, {1 << 20}, {Algorithm::ring, {65536}, 1}});
  table.add({CollectiveKind::barrier, {1, 2, 2, 2}, {0}, TableEntry::no_end, {Algorithm::ring, {1}, 64}});
  return table;
}

/// Returns the example with one piece of text replaced.
std::string spoilt(const std::string& piece, const std::string& replacement) {
  std::string text = format_selection_table(example());
  const auto at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), replacement);
}

std::string complaint(const std::string& text) {
  try {
    parse_selection_table(text, "some.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(SelectionFile, IsReadBack) {
  EXPECT_EQ(parse_selection_table(format_selection_table(example()), ""), example());
  EXPECT_EQ(parse_selection_table(format_selection_table({}), ""), SelectionTable{});
}

TEST(SelectionFile, LooksAsItIsDocumented) {
  SelectionTable table;
  table.add(example().entries().front());
  EXPECT_EQ(format_selection_table(table),
            "{\n  \"format\": \"lockstep selection table\",\n  \"version\": 1,\n  \"entries\": [\n"
            "    {\"operation\":\"all_reduce\",\"ranks\":5,\"nodes\":2,\"ranks_per_node\":[2,3],\"from_bytes\":0,"
            "\"below_bytes\":4096,\"algorithm\":\"recursive-doubling\",\"segment_bytes\":131072,"
            "\"blocks_in_flight\":2,\"radix\":8}\n  ]\n}\n");
}

TEST(SelectionFile, WithoutARadixIsOfRadixTwo) {
  std::string text = format_selection_table(example());
  for (const std::string radix : {",\"radix\":8", ",\"radix\":2"}) {
    for (auto at = text.find(radix); at != std::string::npos; at = text.find(radix)) text.erase(at, radix.size());
  }
  ASSERT_EQ(text.find("radix"), std::string::npos);
  EXPECT_EQ(parse_selection_table(text, "old.json").entries().front().choice.radix, 2);
}

TEST(SelectionFile, WhatIsWrongIsNamedWithItsPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "some.json: this is not JSON"},
      {"{", "some.json: this is not JSON"},
      {"[]", "some.json: here is [] where an object should be"},
      {"{}", "some.json: the key 'format' is missing"},
      {spoilt("lockstep selection", "shopping"), "some.json: \"format\" is \"shopping table\"; it must be \"lockstep "},
      {spoilt(": 1,", ": 2,"), "some.json: \"version\" is 2; this program reads version 1"},
      {spoilt("\"entries\"", "\"entrys\""), "some.json: there is no key 'entrys'; did you mean 'entries'?"},
      {spoilt("segment_bytes", "segments_byte"),
       "some.json: entry 1: there is no key 'segments_byte'; did you mean 'segment_bytes'"},
      {spoilt("\"ranks\":5,", ""), "some.json: entry 1: the key 'ranks' is missing"},
      {spoilt("\"ranks\":5,", "\"ranks\":\"5\","), "some.json: entry 1: \"ranks\" is \"5\"; it must be a whole number"},
      {spoilt("\"ranks\":5,", "\"ranks\":5.5,"), "some.json: entry 1: \"ranks\" is 5.5; it must be a whole number"},
      {spoilt("\"ranks\":5,", "\"ranks\":4294967301,"), "\"ranks\" is 4294967301; it must be"},
      {spoilt("\"from_bytes\":4096", "\"from_bytes\":-1"), "some.json: entry 2: \"from_bytes\" is -1; it must be"},
      {spoilt("\"from_bytes\":4096", "\"from_bytes\":18446744073709551615"), "is 18446744073709551615; it must be"},
      {spoilt("[2,3]", "[2]"), "some.json: entry 1: \"ranks_per_node\" is [2]; it must be [fewest, most]"},
      {spoilt("[2,3]", "[1,3]"), "some.json: entry 1: 5 ranks cannot be on 2 nodes with 1 to 3 on each"},
      {spoilt("\"tree\"", "\"tre\""), "some.json: entry 2: there is no algorithm 'tre'; did you mean 'tree'?"},
      {spoilt("\"tree\"", "7"), "some.json: entry 2: \"algorithm\" is 7; it must be a text"},
      {spoilt("\"binomial\"", "\"ring\""),
       "some.json: entry 3: there is no algorithm of broadcast 'ring'; there are binomial, shared-memory"},
      {spoilt("\"broadcast\"", "\"broadcat\""), "some.json: entry 3: there is no operation 'broadcat'; did you mean"},
      {spoilt("\"from_bytes\":4096", "\"from_bytes\":4095"),
       "some.json: entry 2: all_reduce on 5 ranks on 2 nodes, 2 "},
      {spoilt("\"blocks_in_flight\":4", "\"blocks_in_flight\":0"), "some.json: entry 2: the blocks in flight are 0;"},
      {spoilt("\"segment_bytes\":131072", "\"segment_bytes\":0"), "some.json: entry 1: the segment is 0 bytes"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_NE(complaint(text).find(part), std::string::npos) << complaint(text) << "\n  does not say: " << part;
  }
}

TEST(SelectionFile, ThatIsDeeplyNestedIsRefused) {
  constexpr int depth = 1'000'000;
  for (const auto& [open, close] : {std::pair('[', ']'), std::pair('{', '}')}) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open == '[' ? "[" : "{\"a\":";
    text += "1" + std::string(depth, close);
    EXPECT_EQ(complaint(text), "some.json: objects and lists are nested more than 8 deep");
    EXPECT_EQ(complaint(spoilt("[2,3]", text)), "some.json: objects and lists are nested more than 8 deep");
  }
}

TEST(SelectionFile, MessagesRepeatLittleOfIt) {
  const std::string much(1'000'000, 'x');
  for (const std::string& text :
       {spoilt("lockstep selection table", much), spoilt("\"ranks\":5,", "\"ranks\":\"" + much + "\","),
        spoilt("\"version\"", '"' + much + '"'), spoilt("\"tree\"", '"' + much + '"'), '[' + much + ']'}) {
    EXPECT_LT(complaint(text).size(), 500U);
  }
}

TEST(SelectionFile, OfAnyBytesIsReadOrRefused) {
  std::mt19937 random(1);
  const std::string good = format_selection_table(example());
  for (int round = 0; round < 5000; ++round) {
    std::string text = round % 2 == 0 ? good : std::string(random() % 200, ' ');
    for (auto change = random() % 8 + (round % 2 == 0 ? 0 : 200); change > 0 && !text.empty(); --change) {
      text[random() % text.size()] =
          static_cast<char>(random() % 3 == 0 ? random() % 256 : "{}[]\",:0-e9tfn"[random() % 15]);
    }
    if (random() % 8 == 0) text.resize(random() % (text.size() + 1));
    EXPECT_LT(complaint(text).size(), 1000U);
  }
}

TEST(SelectionFile, ThatCannotBeReadIsNamed) {
  for (const std::string& file :
       {std::string("/nowhere/table.json"), std::filesystem::temp_directory_path().string()}) {
    try {
      read_selection_table(file);
      ADD_FAILURE() << "was read";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(file), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace lockstep::backends
