// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/run/texts.hpp"
#include "apps/train/train_program.hpp"

namespace lockstep::train {
namespace {

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n') + 1;
  return text.substr(text.rfind('\n', end - 1) + 1, end - text.rfind('\n', end - 1) - 1);
}

/// Trains and returns the weights' digest, which must be the same in the last line and in the metrics.
std::string digest(const SmallDigits& digits, int ranks, const std::string& arguments) {
  const std::string path = digits.path("metrics.json");
  std::filesystem::remove(path);
  const auto result =
      run_train(ranks, digits.arguments() + " --batch 24 --steps 6 " + arguments + " --metrics " + path);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const auto events = read_metrics(path);
  const auto recorded = events.empty() ? "none" : events.back().at("weights_sha256").get<std::string>();
  EXPECT_EQ(last_line(result.output), "weights sha256 " + recorded) << result.output;
  return recorded;
}

TEST(Checksum, IsSha256OfTheElements) {
  Layout layout;
  layout.add("first", {1});
  layout.add("others", {2});
  std::vector<std::uint8_t> flat(static_cast<std::size_t>(layout.count().value), 0x7f);
  const std::string text = "abc";
  std::size_t next = 0;
  for (const TensorSlot& slot : layout.tensors())
    for (std::int64_t i = 0; i < slot.count.value; ++i)
      flat[static_cast<std::size_t>(slot.offset.value + i)] = static_cast<std::uint8_t>(text[next++]);
  // This is the example of FIPS 180-4.
  EXPECT_EQ(sha256(layout, {flat.data(), layout.count(), DType::uint8}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ShardsOfTheProgram, MakeTheSameBitsOnAnyRanksAndThreads) {
  const SmallDigits digits;
  const std::string options = "--shards 8 --clip-norm 1 --accumulate 2";
  const std::string alone = digest(digits, 1, options + " --threads 1");
  for (const int ranks : {2, 3}) EXPECT_EQ(digest(digits, ranks, options + " --threads 1"), alone) << ranks;
  EXPECT_EQ(digest(digits, 5, options + " --threads 1 --zero"), alone);
  EXPECT_EQ(digest(digits, 1, options + " --threads 3"), alone);
  EXPECT_EQ(digest(digits, 2, options + " --threads 2 --algorithm tree-order --progress-thread"), alone);
}

TEST(ShardsOfTheProgram, MakeTheSameBitsOfAugmentedImages) {
  const SmallDigits digits;
  const std::string options = "--shards 4 --threads 1 --augment ";
  const std::string alone = digest(digits, 1, options + "crop,flip");
  EXPECT_EQ(digest(digits, 3, options + "flip,crop --workers 3"), alone);
  const std::set<std::string> all{alone, digest(digits, 1, options + "crop"), digest(digits, 1, options + "flip"),
                                  digest(digits, 1, options + "none")};
  EXPECT_EQ(all.size(), 4U);
}

TEST(ShardsOfTheProgram, MakeTheSameBitsInBf16) {
  const SmallDigits digits;
  const std::string options = "--shards 4 --precision bf16 --threads 1";
  const std::string alone = digest(digits, 1, options);
  EXPECT_EQ(digest(digits, 2, options), alone);
  EXPECT_NE(digest(digits, 1, "--shards 4 --threads 1"), alone) << "it trains in float32";
}

TEST(ShardsOfTheProgram, AreWhatKeepsTheBits) {
  const SmallDigits digits;
  const std::set<std::string> all{digest(digits, 1, "--threads 1"), digest(digits, 3, "--threads 1"),
                                  digest(digits, 3, "--threads 1 --shards 4")};
  EXPECT_EQ(all.size(), 3U) << "these data have the same sums in any order";
}

TEST(ShardsOfTheProgram, AreWhatTheHeaderAndTheExplanationSpeakOf) {
  const SmallDigits digits;
  const auto result = run_train(2, digits.arguments() + " --batch 24 --shards 8 --steps 1 --explain");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* part : {"gradients all-reduced by tree-order over 8 shards (lockstep's own)",
                           "# all_reduce on 2 ranks: in tree order over 8 shards"})
    EXPECT_EQ(occurrences(result.output, part), 1) << part << result.output;
  EXPECT_EQ(occurrences(result.output, "cost model"), 0) << result.output;
}

TEST(ShardsOfTheProgram, RefuseWhatWouldBreakThem) {
  const SmallDigits digits;
  const auto refused = [&](const std::string& beside) {
    return run_train(1, digits.arguments() + " --shards 4 --steps 1 " + beside);
  };
  expect_refused(refused("--algorithm ring"), 2, {"--shards 4 with --algorithm ring"});
  expect_refused(refused("--algorithm mpi"), 2, {"--shards 4 with --algorithm mpi"});
  expect_refused(refused("--compress bf16"), 2, {"--shards 4 with --compress bf16"});
  const auto too_few = run_train(3, digits.arguments() + " --batch 24 --shards 2 --steps 1");
  expect_refused(too_few, 1, {"2 shards on 3 ranks"});
}

}  // namespace
}  // namespace lockstep::train
