// SPDX-License-Identifier: Apache-2.0
// Tests compression on the wire over threads: the bytes sent, the error bound of the sums, and that all ranks get the
// same.
#include "lockstep/backends/compressed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "backends/contract/contract.hpp"
#include "lockstep/base/error.hpp"
#include "support/algorithms.hpp"
#include "support/errors.hpp"
#include "support/local.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

/// Runs `body` on one thread per rank, each with its own compressing communicator.
void run_ranks(int ranks, WireFormat format, const PlanOptions& options,
               const std::function<void(Communicator&)>& body) {
  const auto group = make_local_group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress({.spins_before_yield = 0});
      const auto communicator = make_compressed(make_local(group, {rank}, progress, options), format, progress);
      body(*communicator);
      communicator->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Returns a rank's input: numbers of either sign that no 16-bit format represents.
std::vector<float> numbers_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

template <typename T>
Buffer view(std::vector<T>& values, DType dtype) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}, dtype};
}

class CompressedAt : public testing::TestWithParam<std::tuple<WireFormat, Algorithm, int>> {
 protected:
  static constexpr std::size_t count = 5003;
  [[nodiscard]] static double unit() { return std::get<0>(GetParam()) == WireFormat::bfloat16 ? 0x1p-8 : 0x1p-11; }
  static void run(const std::function<void(Communicator&)>& body) {
    const auto [format, algorithm, ranks] = GetParam();
    run_ranks(ranks, format, {.selection = collectives::forced({.algorithm = algorithm, .segment = {1024}})}, body);
  }
};

TEST_P(CompressedAt, SumsAreTheSameBitsOnEveryRankAndOffByNoMoreThanTheBound) {
  const int ranks = std::get<2>(GetParam());
  std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
  run([&](Communicator& c) {
    std::vector<float> values = numbers_of(c.rank().value, count);
    c.all_reduce(view(values, DType::float32), view(values, DType::float32), ReduceOp::sum).wait();
    results[static_cast<std::size_t>(c.rank().value)] = values;
  });
  std::vector<double> sums(count);
  std::vector<double> magnitudes(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto numbers = numbers_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += numbers[i];
    for (std::size_t i = 0; i < count; ++i) magnitudes[i] += std::abs(numbers[i]);
  }
  std::size_t inexact = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double error = std::abs(results[0][i] - sums[i]);
    // An input and the partial sums that contain it are rounded once each, p times in all.
    ASSERT_LE(error, (std::pow(1 + unit(), ranks) - 1) * magnitudes[i]) << i;
    if (error > 1e-5 * magnitudes[i]) ++inexact;
  }
  EXPECT_GT(inexact, count / 2) << "nothing was rounded";
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), count * sizeof(float)), 0);
  }
}

TEST_P(CompressedAt, ScatteredSumsAreThoseOfTheInputsAndLeaveThemUnchanged) {
  run([&](Communicator& c) {
    const auto all = static_cast<std::size_t>(c.size()) * 100;
    const std::vector<float> before = numbers_of(c.rank().value, all);
    std::vector<float> values = before;
    std::vector<float> part(100);
    c.reduce_scatter(view(values, DType::float32), view(part, DType::float32), ReduceOp::sum).wait();
    EXPECT_EQ(values, before);
    for (std::size_t i = 0; i < part.size(); ++i) {
      double sum = 0;
      double magnitude = 0;
      for (int rank = 0; rank < c.size(); ++rank) {
        const float number = numbers_of(rank, all)[static_cast<std::size_t>(c.rank().value) * 100 + i];
        sum += number;
        magnitude += std::abs(number);
      }
      ASSERT_LE(std::abs(part[i] - sum), (std::pow(1 + unit(), c.size()) - 1) * magnitude);
    }
  });
}

TEST_P(CompressedAt, ReducedSumsAreRoundedToo) {
  run([&](Communicator& c) {
    constexpr std::size_t elements = 1000;
    const Rank root{c.size() - 1};
    std::vector<float> values = numbers_of(c.rank().value, elements);
    std::vector<float> sums(elements);
    c.reduce(view(values, DType::float32), view(sums, DType::float32), ReduceOp::sum, root).wait();
    EXPECT_EQ(values, numbers_of(c.rank().value, elements));
    if (c.rank() != root) {
      EXPECT_EQ(sums, std::vector<float>(elements));
      return;
    }
    std::size_t inexact = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (int rank = 0; rank < c.size(); ++rank) {
        const float number = numbers_of(rank, elements)[i];
        sum += number;
        magnitude += std::abs(number);
      }
      ASSERT_LE(std::abs(sums[i] - sum), (std::pow(1 + unit(), c.size()) - 1) * magnitude);
      if (std::abs(sums[i] - sum) > 1e-5 * magnitude) ++inexact;
    }
    EXPECT_GT(inexact, elements / 2) << "nothing was rounded";
  });
}

INSTANTIATE_TEST_SUITE_P(
    EveryAlgorithm, CompressedAt,
    testing::Combine(testing::Values(WireFormat::bfloat16, WireFormat::float16),
                     testing::ValuesIn(testing_support::not_canonical(testing_support::message_algorithms)),
                     testing::Values(1, 2, 3, 5)));

class CompressedContract : public testing::TestWithParam<std::tuple<WireFormat, int>> {};

TEST_P(CompressedContract, Holds) {
  const auto [format, ranks] = GetParam();
  run_ranks(ranks, format, {.selection = collectives::forced({.segment = {256}, .blocks_in_flight = 3})},
            [](Communicator& c) { contract::check_all(c); });
}

INSTANTIATE_TEST_SUITE_P(EitherFormat, CompressedContract,
                         testing::Combine(testing::Values(WireFormat::bfloat16, WireFormat::float16),
                                          testing::Values(1, 2, 3, 5, 8)));

TEST(Compressed, ValuesThatAreHandedOnKeepEveryBit) {
  run_ranks(3, WireFormat::bfloat16, {}, [](Communicator& c) {
    std::vector<float> mine = numbers_of(c.rank().value, 100);
    std::vector<float> all(300);
    c.all_gather(view(mine, DType::float32), view(all, DType::float32)).wait();
    for (int rank = 0; rank < 3; ++rank) {
      const auto expected = numbers_of(rank, 100);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + rank * 100));
    }
    c.broadcast(view(mine, DType::float32), {1}).wait();
    EXPECT_EQ(mine, numbers_of(1, 100));
  });
}

TEST(Compressed, OtherDtypesAreSummedAsTheyAre) {
  run_ranks(2, WireFormat::float16, {}, [](Communicator& c) {
    std::vector<double> wide = {1.0 + 0x1p-40, 1e300};
    c.all_reduce(view(wide, DType::float64), view(wide, DType::float64), ReduceOp::sum).wait();
    EXPECT_EQ(wide, (std::vector<double>{2.0 + 0x1p-39, 2e300}));
    std::vector<std::int32_t> integers = {1 << 20 | 1};
    c.all_reduce(view(integers, DType::int32), view(integers, DType::int32), ReduceOp::sum).wait();
    EXPECT_EQ(integers[0], 1 << 21 | 2);
  });
}

/// Counts the bytes of completed operations.
class ByteCounter : public Observer {
 public:
  void span(const Span& span) override { bytes += span.bytes.value; }
  std::int64_t bytes = 0;
};

TEST(Compressed, SendsHalfTheBytes) {
  for (const WireFormat format : {WireFormat::bfloat16, WireFormat::float16}) {
    ByteCounter counter;
    Progress progress;
    const auto c =
        make_compressed(make_local(make_local_group(1), {0}, progress, {.observer = &counter}), format, progress);
    std::vector<float> values(1000);
    c->all_reduce(view(values, DType::float32), view(values, DType::float32), ReduceOp::sum).wait();
    c->close();
    EXPECT_EQ(counter.bytes, 2000);
  }
}

TEST(Compressed, AFailureOfTheInnerCommunicatorIsTheOperations) {
  const auto group = make_local_group(2);
  Progress progress;
  const auto c = make_compressed(make_local(group, {0}, progress, {.deadline = std::chrono::milliseconds(50)}),
                                 WireFormat::bfloat16, progress);
  std::vector<float> values(1000);
  const Buffer buffer = view(values, DType::float32);
  Work first = c->all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "layer1");
  Work second = c->barrier();
  try {
    first.wait();
    FAIL() << "nobody was there to add to";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_EQ(error.context().label, "layer1");
  }
  EXPECT_THROW(second.wait(), Error);
  EXPECT_THROW((void)c->barrier(), Error);
}

TEST(Compression, IsChosenByName) {
  EXPECT_EQ(parse_compression("none"), std::nullopt);
  for (const WireFormat format : {WireFormat::bfloat16, WireFormat::float16})
    EXPECT_EQ(parse_compression(name(format)), format);
  expect_error([] { (void)parse_compression("bf61"); }, ErrorCode::invalid_argument, {"did you mean 'bf16'?"});
}

}  // namespace
}  // namespace lockstep::backends
