// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "nn/plan/step_plan.hpp"

namespace lockstep::nn {
namespace {

std::string tree(const LeafNode& node) {
  return canonical_tree_fold(
      node.leaves, [](int leaf) { return std::to_string(leaf); },
      [](const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }, node.first);
}

/// Executes a plan with texts as gradients. The streams run one after the other or interleaved.
std::map<int, std::string> followed(const GradientAdditions& plan, const Share& own, const std::vector<Share>& streams,
                                    bool interleaved) {
  std::map<int, std::string> sums;
  const auto addition = [&](const GradientAddition& f) {
    sums.at(f.to) = "(" + sums.at(f.to) + "+" + sums.at(f.from) + ")";
    sums.erase(f.from);
  };
  const auto take = [&](std::int64_t shard) {
    const auto s = static_cast<std::size_t>(shard);
    EXPECT_FALSE(sums.contains(plan.place[s])) << "another sum lies where shard " << shard << " is made";
    EXPECT_LT(plan.place[s], plan.places);
    sums[plan.place[s]] = std::to_string(own.first + shard);
    for (const GradientAddition& f : plan.after[s]) addition(f);
  };
  if (interleaved) {
    for (std::int64_t round = 0; round < own.count; ++round)
      for (const Share& stream : streams)
        if (round < stream.count) take(stream.first + round);
  } else {
    for (std::int64_t shard = 0; shard < own.count; ++shard) take(shard);
  }
  for (const GradientAddition& f : plan.last) addition(f);
  return sums;
}

/// Tests every range of up to 16 shards, in every number of streams: the gradient buffers 0, 1, … hold the nodes of the
/// range, each added up in tree order.
TEST(GradientAdditions, LeaveTheNodesOfTheTreeInTheFirstPlaces) {
  for (int shards = 1; shards <= 16; ++shards)
    for (int first = 0; first < shards; ++first)
      for (int count = 1; first + count <= shards; ++count)
        for (int lanes = 1; lanes <= count; ++lanes) {
          const Share own{first, count};
          std::vector<Share> streams;
          for (int lane = 0; lane < lanes; ++lane) streams.push_back(share_of(count, lane, lanes));
          const GradientAdditions plan = plan_gradient_additions(shards, own, streams);
          for (const bool interleaved : {false, true}) {
            const auto sums = followed(plan, own, streams, interleaved);
            const std::vector<LeafNode> nodes = tree_nodes(shards, own);
            ASSERT_EQ(sums.size(), nodes.size());
            for (std::size_t i = 0; i < nodes.size(); ++i)
              ASSERT_EQ(sums.at(static_cast<int>(i)), tree(nodes[i])) << shards << " shards, " << lanes << " streams";
          }
        }
}

TEST(GradientAdditions, OfOneStreamNeedFewPlaces) {
  const auto places = [](int shards, const Share& own) {
    const Share all{0, own.count};
    return plan_gradient_additions(shards, own, std::span(&all, 1)).places;
  };
  EXPECT_EQ(places(8, {0, 8}), 4);
  EXPECT_EQ(places(1024, {0, 1024}), 11) << "not one for each of 1024";
  EXPECT_EQ(places(1, {0, 1}), 1);
}

}  // namespace
}  // namespace lockstep::nn
