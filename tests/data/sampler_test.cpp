// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

using Indices = std::vector<std::int64_t>;

struct Case {
  std::int64_t samples;
  std::int64_t batch;
  int ranks;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t samples : {1, 2, 7, 64, 100, 101, 997})
    for (const std::int64_t batch : {1, 2, 3, 10, 64, 100, 2000})
      for (const int ranks : {1, 2, 3, 4, 5, 8, 13}) all.push_back({samples, batch, ranks});
  return all;
}

DistributedSampler sampler_of(const Case& c, int rank, bool shuffle = true) {
  return DistributedSampler(
      {.samples = {c.samples}, .batch = {c.batch}, .rank = {rank}, .ranks = c.ranks, .seed = 5, .shuffle = shuffle});
}

std::string text(const Case& c) {
  return "samples " + std::to_string(c.samples) + " batch " + std::to_string(c.batch) + " ranks " +
         std::to_string(c.ranks);
}

/// Returns a step's samples, rank after rank.
Indices step_of_all_ranks(const std::vector<DistributedSampler>& ranks, std::int64_t step) {
  Indices all;
  for (const auto& rank : ranks) {
    const auto mine = rank.indices(step);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

std::vector<DistributedSampler> all_ranks(const Case& c, bool shuffle = true) {
  std::vector<DistributedSampler> ranks;
  for (int rank = 0; rank < c.ranks; ++rank) ranks.push_back(sampler_of(c, rank, shuffle));
  return ranks;
}

Indices epoch_of(const DistributedSampler& sampler) {
  Indices all;
  for (std::int64_t step = 0; step < sampler.steps(); ++step) {
    const auto mine = sampler.indices(step);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

Indices natural_order(std::int64_t samples) {
  Indices order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(DistributedSampler, TakesEverySampleExactlyOnceInAnEpoch) {
  for (const Case& c : cases()) {
    const auto ranks = all_ranks(c);
    Indices taken;
    for (std::int64_t step = 0; step < ranks[0].steps(); ++step) {
      const Indices all = step_of_all_ranks(ranks, step);
      taken.insert(taken.end(), all.begin(), all.end());
    }
    std::sort(taken.begin(), taken.end());
    ASSERT_EQ(taken, natural_order(c.samples)) << text(c);
  }
}

TEST(DistributedSampler, StepsHaveTheSameSamplesForAnyNumberOfRanks) {
  for (const Case& c : cases()) {
    const auto ranks = all_ranks(c);
    const auto alone = sampler_of({c.samples, c.batch, 1}, 0);
    ASSERT_EQ(ranks[0].steps(), alone.steps()) << text(c);
    for (std::int64_t step = 0; step < alone.steps(); ++step) {
      const auto whole = alone.indices(step);
      ASSERT_EQ(step_of_all_ranks(ranks, step), Indices(whole.begin(), whole.end())) << text(c);
      ASSERT_EQ(ranks[0].step_samples(step).value, static_cast<std::int64_t>(whole.size())) << text(c);
    }
  }
}

TEST(DistributedSampler, SharesDifferByAtMostOneAndFitTheLargest) {
  for (const Case& c : cases()) {
    const auto ranks = all_ranks(c);
    for (std::int64_t step = 0; step < ranks[0].steps(); ++step) {
      std::vector<std::int64_t> sizes;
      for (const auto& rank : ranks) {
        sizes.push_back(static_cast<std::int64_t>(rank.indices(step).size()));
        ASSERT_LE(sizes.back(), rank.largest_share().value) << text(c);
      }
      const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
      ASSERT_LE(*most - *least, 1) << text(c);
    }
  }
}

TEST(DistributedSampler, ARankMayHaveNoneInTheLastStep) {
  const Case c{10, 4, 4};  // steps of 4, 4 and 2 samples
  EXPECT_EQ(sampler_of(c, 1).indices(2).size(), 1U);
  EXPECT_TRUE(sampler_of(c, 2).indices(2).empty());
}

TEST(DistributedSampler, LeavesOutASmallerLastBatchAndNothingElse) {
  for (const Case& c : cases()) {
    if (c.batch > c.samples) continue;
    for (int rank = 0; rank < c.ranks; ++rank) {
      const auto all = sampler_of(c, rank);
      SamplerOptions options = all.options();
      options.drop_last = true;
      const DistributedSampler whole(options);
      ASSERT_EQ(whole.steps(), c.samples / c.batch) << text(c);
      for (std::int64_t step = 0; step < whole.steps(); ++step) {
        const auto expected = all.indices(step);
        const auto found = whole.indices(step);
        ASSERT_EQ(Indices(found.begin(), found.end()), Indices(expected.begin(), expected.end())) << text(c);
        ASSERT_EQ(whole.step_samples(step).value, c.batch) << text(c);
      }
    }
  }
}

TEST(DistributedSampler, LeavesOutOtherSamplesInEachEpoch) {
  DistributedSampler sampler({.samples = {101}, .batch = {10}, .drop_last = true});
  std::set<std::int64_t> left_out;
  for (int epoch = 1; epoch <= 20; ++epoch) {
    sampler.start_epoch(epoch);
    Indices taken = epoch_of(sampler);
    std::sort(taken.begin(), taken.end());
    const Indices order = natural_order(101);
    std::set_difference(order.begin(), order.end(), taken.begin(), taken.end(),
                        std::inserter(left_out, left_out.end()));
  }
  EXPECT_GT(left_out.size(), 10U) << "one in each of 20 epochs";
}

TEST(DistributedSampler, WithoutShuffleKeepsTheOrderInEveryEpoch) {
  auto sampler = sampler_of({101, 10, 1}, 0, false);
  EXPECT_EQ(epoch_of(sampler), natural_order(101));
  sampler.start_epoch(7);
  EXPECT_EQ(epoch_of(sampler), natural_order(101));
}

/// A range begins at a multiple of `together`, so that the whole parts of an epoch are the same on any number of ranks.
TEST(DistributedSampler, SamplesThatStayTogetherAreOnOneRank) {
  for (const std::int64_t samples : {1, 8, 53, 64}) {
    for (const int ranks : {1, 2, 3, 8}) {
      std::vector<DistributedSampler> all;
      for (int rank = 0; rank < ranks; ++rank)
        all.emplace_back(SamplerOptions{.samples = {samples},
                                        .batch = {std::min<std::int64_t>(8 * ranks, samples)},
                                        .rank = {rank},
                                        .ranks = ranks,
                                        .shuffle = false,
                                        .together = {8}});
      Indices taken;
      for (std::int64_t step = 0; step < all.front().steps(); ++step) {
        for (const DistributedSampler& sampler : all) {
          const auto mine = sampler.indices(step);
          EXPECT_EQ(mine.empty() ? 0 : mine.front() % 8, 0) << samples << " samples on " << ranks << " ranks";
          EXPECT_LE(mine.size(), 8U);
          EXPECT_LE(mine.size(), static_cast<std::size_t>(sampler.largest_share().value));
          taken.insert(taken.end(), mine.begin(), mine.end());
        }
      }
      EXPECT_EQ(taken, natural_order(samples)) << samples << " samples on " << ranks << " ranks";
    }
  }
}

TEST(DistributedSampler, PermutationDependsOnSeedAndEpochAlone) {
  DistributedSampler first({.samples = {1000}, .batch = {10}, .seed = 3});
  DistributedSampler second({.samples = {1000}, .batch = {70}, .seed = 3});
  DistributedSampler other_seed({.samples = {1000}, .batch = {10}, .seed = 4});
  const Indices epoch_1 = epoch_of(first);
  EXPECT_NE(epoch_1, natural_order(1000));
  EXPECT_NE(epoch_1, epoch_of(other_seed));
  first.start_epoch(2);
  EXPECT_NE(epoch_of(first), epoch_1);
  second.start_epoch(2);
  EXPECT_EQ(epoch_of(first), epoch_of(second));
  first.start_epoch(1);
  EXPECT_EQ(epoch_of(first), epoch_1);
}

TEST(DistributedSampler, EveryPlaceIsAsLikelyForASample) {
  constexpr int epochs = 6000;
  DistributedSampler sampler({.samples = {6}, .batch = {6}});
  std::vector<std::vector<int>> counts(6, std::vector<int>(6));
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    sampler.start_epoch(epoch);
    const auto order = sampler.indices(0);
    for (std::size_t place = 0; place < order.size(); ++place) ++counts[place][static_cast<std::size_t>(order[place])];
  }
  for (const auto& row : counts)
    for (const int count : row) EXPECT_NEAR(count, epochs / 6, 150);  // five standard deviations
}

TEST(DistributedSampler, RefusesShardsOfAnotherNumberOrOfOtherRanks) {
  DistributedSampler sampler({.samples = {9}, .batch = {8}, .rank = {1}, .ranks = 2, .shards = 8});
  for (const LeafShares& shards : {LeafShares(7), LeafShares(0), LeafShares(std::vector<int>{2, 2, 4})})
    EXPECT_EQ(code_of([&] { sampler.move_shards(shards); }), ErrorCode::invalid_argument);
}

TEST(DistributedSampler, RefusesWhatCannotBe) {
  EXPECT_EQ(code_of([&] { (void)DistributedSampler({.samples = {0}, .batch = {1}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)DistributedSampler({.samples = {1}, .batch = {0}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)DistributedSampler({.samples = {9}, .batch = {10}, .drop_last = true}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)DistributedSampler({.samples = {1}, .batch = {1}, .rank = {1}, .ranks = 1}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)DistributedSampler({.samples = {1}, .batch = {1}, .rank = {-1}, .ranks = 2}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)DistributedSampler({.samples = {1}, .batch = {1}, .rank = {0}, .ranks = 0}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)DistributedSampler({.samples = {1}, .batch = {1}, .together = {0}}); }),
            ErrorCode::invalid_argument);
}

const std::vector<Indices> groups_of_13 = {{12, 3, 5, 1, 0}, {}, {2}, {4, 6, 7, 8, 9, 10, 11}};

DistributedSampler sampler_of_groups(int rank, int ranks, int shards = 0) {
  return DistributedSampler({.samples = {13},
                             .batch = {shards > 0 ? 4 : 3 * ranks},
                             .rank = {rank},
                             .ranks = ranks,
                             .shuffle = false,
                             .shards = shards,
                             .together = {shards > 0 ? 1 : 3},
                             .groups = groups_of_13});
}

/// The parts in which groups are evaluated must not depend on the number of ranks.
TEST(SamplerOfGroups, GivesEachRankPartsOfOneGroup) {
  const std::vector<std::pair<Indices, std::size_t>> parts = {{{12, 3, 5}, 0}, {{1, 0}, 0},     {{2}, 2},
                                                              {{4, 6, 7}, 3},  {{8, 9, 10}, 3}, {{11}, 3}};
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::size_t part = 0;
    const std::int64_t steps = sampler_of_groups(0, ranks).steps();
    EXPECT_EQ(steps, (6 + ranks - 1) / ranks);
    for (std::int64_t step = 0; step < steps; ++step) {
      std::int64_t position = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const DistributedSampler sampler = sampler_of_groups(rank, ranks);
        ASSERT_EQ(sampler.steps(), steps);
        const auto indices = sampler.indices(step);
        if (!indices.empty()) {
          ASSERT_LT(part, parts.size());
          EXPECT_EQ(Indices(indices.begin(), indices.end()), parts[part].first);
          EXPECT_EQ(sampler.group(step), parts[part].second);
          EXPECT_EQ(sampler.first(step), position);
          EXPECT_LE(std::ssize(indices), sampler.largest_share().value);
          ++part;
        }
        position += std::ssize(indices);
      }
      EXPECT_EQ(sampler_of_groups(0, ranks).step_samples(step).value, position);
    }
    EXPECT_EQ(part, parts.size());
  }
}

TEST(SamplerOfGroups, GivesShardsPartsOfAStepThatIsOfOneGroup) {
  const std::vector<std::pair<Indices, std::size_t>> steps = {
      {{12, 3, 5, 1}, 0}, {{0}, 0}, {{2}, 2}, {{4, 6, 7, 8}, 3}, {{9, 10, 11}, 3}};
  for (const int ranks : {1, 2, 3}) {
    std::vector<DistributedSampler> samplers;
    for (int rank = 0; rank < ranks; ++rank) samplers.push_back(sampler_of_groups(rank, ranks, 4));
    ASSERT_EQ(samplers[0].steps(), std::ssize(steps));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto step = static_cast<std::int64_t>(i);
      EXPECT_EQ(step_of_all_ranks(samplers, step), steps[i].first);
      EXPECT_EQ(samplers[0].step_samples(step).value, std::ssize(steps[i].first));
      for (const DistributedSampler& sampler : samplers) EXPECT_EQ(sampler.group(step), steps[i].second);
    }
  }
}

TEST(SamplerOfGroups, RefusesWhatDoesNotFit) {
  SamplerOptions options{.samples = {13}, .batch = {3}, .shuffle = false, .together = {3}, .groups = groups_of_13};
  const auto refuse = [](const SamplerOptions& of, const std::string& part) {
    expect_error([&] { (void)DistributedSampler(of); }, ErrorCode::invalid_argument, {part});
  };
  options.shuffle = true;
  refuse(options, "do not shuffle them");
  options.shuffle = false;
  options.batch = {4};
  refuse(options, "a batch of 4 is not 3 samples for each of 1 ranks");
  options.groups.pop_back();
  refuse(options, "groups have 6 samples of 13");
}

}  // namespace
}  // namespace lockstep::data
