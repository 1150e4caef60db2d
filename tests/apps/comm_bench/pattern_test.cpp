// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "apps/comm-bench/exercise.hpp"
#include "apps/comm-bench/workplaces.hpp"
#include "comm/collective_parts.hpp"
#include "kernels/convert.hpp"

namespace lockstep::comm_bench {
namespace {

constexpr std::int64_t length = 3 * Pattern::period + 5;

std::vector<std::int32_t> written(const Pattern& pattern, std::int64_t first) {
  std::vector<std::int32_t> values(length);
  pattern.write({values.data(), {length}, DType::int32}, first);
  return values;
}

std::int64_t differences(const Pattern& pattern, const std::vector<std::int32_t>& values, std::int64_t first) {
  return pattern.differences({values.data(), {static_cast<std::int64_t>(values.size())}, DType::int32}, first);
}

TEST(Pattern, EqualsWhatItWrote) {
  Pattern pattern(DType::int32, 4);
  pattern.set_input(2, 7);
  EXPECT_EQ(differences(pattern, written(pattern, 900), 900), 0);
}

TEST(Pattern, CountsEveryElementThatIsWrong) {
  Pattern pattern(DType::int32, 4);
  pattern.set_input(0, 1);
  auto values = written(pattern, 0);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1020}, std::size_t{1021}, std::size_t{length - 1}})
    ++values[i];
  EXPECT_EQ(differences(pattern, values, 0), 4);
}

TEST(Pattern, ChangesByRankElementAndRepetition) {
  Pattern pattern(DType::int32, 2);
  pattern.set_input(0, 1);
  const auto values = written(pattern, 0);
  const std::int64_t most = length * 9 / 10;
  EXPECT_GT(differences(pattern, values, 1), most) << "moved by one element";
  EXPECT_GT(differences(pattern, values, 1 << 16), most) << "moved by a power of two";
  pattern.set_input(1, 1);
  EXPECT_GT(differences(pattern, values, 0), most) << "another rank's";
  pattern.set_input(0, 2);
  EXPECT_GT(differences(pattern, values, 0), most) << "the repetition before";
}

TEST(Pattern, SumIsThatOfTheInputs) {
  constexpr int ranks = 5;
  Pattern pattern(DType::int32, ranks);
  std::vector<std::int32_t> sum(length, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    pattern.set_input(rank, 3);
    const auto input = written(pattern, 10);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  pattern.set_sum(3);
  EXPECT_EQ(differences(pattern, sum, 10), 0);
}

TEST(Pattern, SumsOf255RanksFitIntoAByte) {
  Pattern bytes(DType::uint8, 255);
  Pattern integers(DType::int32, 255);
  bytes.set_sum(1);
  integers.set_sum(1);
  std::vector<std::uint8_t> narrow(Pattern::period);
  std::vector<std::int32_t> wide(Pattern::period);
  bytes.write({narrow.data(), {Pattern::period}, DType::uint8}, 0);
  integers.write({wide.data(), {Pattern::period}, DType::int32}, 0);
  for (std::size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], narrow[i]);
}

TEST(Pattern, SumsOf255RanksAreExactIn16Bits) {
  Pattern floats(DType::float32, 255);
  Pattern halves(DType::float16, 255);
  Pattern brains(DType::bfloat16, 255);
  std::vector<float> wide(Pattern::period);
  std::vector<float16> half(Pattern::period);
  std::vector<bfloat16> brain(Pattern::period);
  floats.set_sum(1);
  floats.write({wide.data(), {Pattern::period}, DType::float32}, 0);
  halves.set_sum(1);
  halves.write({half.data(), {Pattern::period}, DType::float16}, 0);
  brains.set_sum(1);
  brains.write({brain.data(), {Pattern::period}, DType::bfloat16}, 0);
  std::vector<float> back(Pattern::period);
  kernels::convert(std::span<const float16>(half), back);
  EXPECT_EQ(back, wide);
  kernels::convert(std::span<const bfloat16>(brain), back);
  EXPECT_EQ(back, wide);
}

class ExerciseOfEveryKind : public testing::TestWithParam<CollectiveKind> {};

TEST_P(ExerciseOfEveryKind, FindsThatNothingWasDone) {
  const bool only_the_root_has_a_result = GetParam() == CollectiveKind::reduce || GetParam() == CollectiveKind::gather;
  const Rank me{only_the_root_has_a_result ? 0 : 1};
  const Exercise::Shape shape{.kind = GetParam(), .dtype = DType::float32, .me = me, .ranks = 3, .part = {2000}};
  const Allocation memory = allocate_host(Exercise::memory_needed(shape));
  Exercise exercise(shape, memory.data());
  exercise.refill(4);
  EXPECT_GT(exercise.wrong(4), 1900);
}

INSTANTIATE_TEST_SUITE_P(All, ExerciseOfEveryKind,
                         testing::Values(CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                         CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                         CollectiveKind::reduce, CollectiveKind::all_to_all, CollectiveKind::gather,
                                         CollectiveKind::scatter, CollectiveKind::all_gather_v,
                                         CollectiveKind::reduce_scatter_v, CollectiveKind::all_to_all_v));

TEST(DeviceExercise, IsWrittenAndCheckedThroughTheMirror) {
  const Exercise::Shape shape{
      .kind = CollectiveKind::all_to_all, .dtype = DType::int32, .me = {0}, .ranks = 1, .part = {500}};
  std::vector<std::int32_t> mirror(1000);
  std::vector<std::int32_t> device(1000);
  const DeviceExercise::Copy copy = [](void* to, const void* from, Bytes bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes.value));
  };
  DeviceExercise exercise(shape, mirror.data(), device.data(), copy);
  exercise.refill(4);
  const Collective collective = exercise.collective();
  EXPECT_EQ(collective.in.data, device.data());
  EXPECT_EQ(collective.out.data, device.data() + 500);
  EXPECT_EQ(collective.in.kind, MemoryKind::device);
  EXPECT_EQ(collective.out.kind, MemoryKind::device);
  EXPECT_GT(exercise.wrong(4), 400) << "nothing was done";
  std::copy_n(device.begin(), 500, device.begin() + 500);
  ++mirror[777];
  EXPECT_EQ(exercise.wrong(4), 0) << "the mirror holds nothing of its own";
  ++device[777];
  EXPECT_EQ(exercise.wrong(4), 1);
}

TEST(Exercise, FindsThatAReduceTouchedABufferAwayFromTheRoot) {
  std::vector<float> memory(2000);
  const Exercise::Shape shape{
      .kind = CollectiveKind::reduce, .dtype = DType::float32, .me = {1}, .ranks = 3, .part = {2000}};
  Exercise exercise(shape, memory.data());
  exercise.refill(4);
  EXPECT_EQ(exercise.wrong(4), 0);
  ++memory[7];
  EXPECT_EQ(exercise.wrong(4), 1);
}

TEST(Exercise, HasPartsThatGrowWithTheRankAndAddUp) {
  for (const int ranks : {1, 2, 3, 8})
    for (const std::int64_t mean : {0, 1, 1000})
      for (int me = 0; me < ranks; ++me)
        for (const CollectiveKind kind : {CollectiveKind::all_gather_v, CollectiveKind::all_to_all_v}) {
          const auto parts = Exercise::parts_of({.kind = kind, .me = {me}, .ranks = ranks, .part = {mean}});
          EXPECT_EQ(offset_of_part(parts, {ranks - 1}).value + parts.back().value, mean * ranks);
          const bool rotated = kind == CollectiveKind::all_to_all_v && me > 0;
          if (!rotated) {
            EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
          }
        }
  const auto of_pairs = [](int me) {
    return Exercise::parts_of({.kind = CollectiveKind::all_to_all_v, .me = {me}, .ranks = 3, .part = {100}});
  };
  for (std::size_t from = 0; from < 3; ++from)
    for (std::size_t to = 0; to < 3; ++to)
      EXPECT_EQ(of_pairs(static_cast<int>(from))[to], of_pairs(static_cast<int>(to))[from]);
}

TEST(Exercise, ExpectsOfAnAllToAllTheRanksOwnPartOfEveryInput) {
  constexpr int ranks = 3;
  constexpr std::int64_t part = 700;
  const auto shape = [](int me) {
    return Exercise::Shape{
        .kind = CollectiveKind::all_to_all, .dtype = DType::int32, .me = {me}, .ranks = ranks, .part = {part}};
  };
  std::vector<std::vector<std::int32_t>> memories(ranks, std::vector<std::int32_t>(2 * ranks * part));
  std::deque<Exercise> exercises;
  for (int me = 0; me < ranks; ++me) {
    exercises.emplace_back(shape(me), memories[static_cast<std::size_t>(me)].data());
    exercises.back().refill(4);
  }
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      const auto source = memories[static_cast<std::size_t>(from)].begin() + to * part;
      std::copy_n(source, part, memories[static_cast<std::size_t>(to)].begin() + (ranks + from) * part);
    }
  for (Exercise& exercise : exercises) EXPECT_EQ(exercise.wrong(4), 0);
  std::swap_ranges(memories[1].begin() + ranks * part, memories[1].begin() + (ranks + 1) * part,
                   memories[1].begin() + (ranks + 1) * part);
  EXPECT_GT(exercises[1].wrong(4), 1200);
}

}  // namespace
}  // namespace lockstep::comm_bench
