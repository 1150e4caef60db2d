// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

constexpr ShapeSummary two_on_one{.nodes = 1, .ranks = 2, .min_ranks_per_node = 2, .max_ranks_per_node = 2};
constexpr ShapeSummary eight_on_two{.nodes = 2, .ranks = 8, .min_ranks_per_node = 4, .max_ranks_per_node = 4};

ShapeSummary on_one_node(int ranks) { return {1, ranks, ranks, ranks}; }
ShapeSummary one_on_each(int nodes) { return {nodes, nodes, 1, 1}; }

TableEntry entry(std::int64_t from, std::int64_t below, Algorithm algorithm) {
  return {CollectiveKind::all_reduce, two_on_one, {from}, {below}, {algorithm, {4096}, 3}};
}

std::string complaint(SelectionTable table, const TableEntry& wrong) {
  const SelectionTable before = table;
  try {
    table.add(wrong);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(table, before);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(ShapeSummary, CountsRanksAndNodes) {
  EXPECT_EQ(summarize({{0, 0}}), two_on_one);
  EXPECT_EQ(summarize({{0, 1, 0, 1, 1}}), (ShapeSummary{2, 5, 2, 3}));
  EXPECT_EQ(describe(two_on_one), "2 ranks on 1 node");
  EXPECT_EQ(describe(on_one_node(1)), "1 rank on 1 node");
  EXPECT_EQ(describe({2, 5, 2, 3}), "5 ranks on 2 nodes, 2 to 3 on each");
}

TEST(ShapeSummary, KnowsWhatIsPossible) {
  for (const ShapeSummary& s : {two_on_one, eight_on_two, ShapeSummary{2, 5, 2, 3}, ShapeSummary{3, 9, 1, 4}}) {
    EXPECT_TRUE(is_possible(s)) << describe(s);
  }
  for (const ShapeSummary& s : {ShapeSummary{1, 2, 1, 2}, ShapeSummary{0, 0, 0, 0}, ShapeSummary{2, 5, 2, 4},
                                ShapeSummary{2, 4, 3, 1}, ShapeSummary{3, 10, 1, 4}, ShapeSummary{2, 3, 2, 2}}) {
    EXPECT_FALSE(is_possible(s)) << describe(s);
  }
}

TEST(Candidates, AreApplicableAndNamed) {
  for (const ShapeSummary& shape : {on_one_node(1), two_on_one, eight_on_two, ShapeSummary{2, 5, 2, 3}}) {
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::all_gather,
          CollectiveKind::reduce_scatter, CollectiveKind::reduce, CollectiveKind::all_to_all, CollectiveKind::barrier,
          CollectiveKind::gather, CollectiveKind::scatter}) {
      const auto found = candidates(kind, shape);
      ASSERT_FALSE(found.empty());
      EXPECT_EQ(parse_kind(name(kind)), kind);
      for (const Algorithm algorithm : found) {
        EXPECT_TRUE(applicable(algorithm, shape));
        EXPECT_EQ(parse_algorithm(kind, algorithm_name(kind, algorithm)), algorithm);
      }
    }
  }
  EXPECT_THROW(require_applicable(Algorithm::ring, {0, 0, 0, 0}), Error);
  EXPECT_THROW(parse_algorithm(CollectiveKind::broadcast, "ring"), Error);
  EXPECT_THROW(parse_kind("allreduce"), Error);
}

TEST(SelectionTable, FindsTheEntryThatCoversASize) {
  SelectionTable table;
  table.add(entry(4096, TableEntry::no_end.value, Algorithm::ring));
  table.add(entry(0, 1024, Algorithm::recursive_doubling));
  ASSERT_NE(table.find(CollectiveKind::all_reduce, two_on_one, {0}), nullptr);
  EXPECT_EQ(table.find(CollectiveKind::all_reduce, two_on_one, {1023})->choice.algorithm,
            Algorithm::recursive_doubling);
  EXPECT_EQ(table.find(CollectiveKind::all_reduce, two_on_one, {1024}), nullptr);
  EXPECT_EQ(table.find(CollectiveKind::all_reduce, two_on_one, {4095}), nullptr);
  EXPECT_EQ(table.find(CollectiveKind::all_reduce, two_on_one, {4096})->choice.algorithm, Algorithm::ring);
  EXPECT_NE(table.find(CollectiveKind::all_reduce, two_on_one, TableEntry::no_end), nullptr);
  EXPECT_EQ(table.find(CollectiveKind::all_reduce, on_one_node(3), {4096}), nullptr);
  EXPECT_EQ(table.find(CollectiveKind::broadcast, two_on_one, {4096}), nullptr);
  EXPECT_EQ(table.entries().front().from, Bytes{0}) << "entries are in order";
}

TEST(SelectionTable, ErasesOneOperationOnOneShape) {
  SelectionTable table;
  table.add(entry(0, 10, Algorithm::ring));
  table.add(entry(10, 20, Algorithm::ring));
  TableEntry other = entry(0, 10, Algorithm::ring);
  other.shape = eight_on_two;
  table.add(other);
  table.erase(CollectiveKind::all_reduce, two_on_one);
  ASSERT_EQ(table.entries().size(), 1U);
  EXPECT_EQ(table.entries().front(), other);
}

TEST(SelectionTable, RefusesWhatContradictsOrCannotBe) {
  SelectionTable table;
  table.add(entry(100, 200, Algorithm::ring));
  for (const auto& [from, below] : {std::pair{150, 160}, {50, 101}, {199, 300}, {0, 1000}, {100, 200}}) {
    EXPECT_NE(complaint(table, entry(from, below, Algorithm::ring)).find("overlap"), std::string::npos);
  }
  EXPECT_EQ(complaint(table, entry(150, 160, Algorithm::ring)),
            "all_reduce on 2 ranks on 1 node: the sizes from 150 bytes to below 160 overlap with those from 100 bytes "
            "to below 200");
  EXPECT_EQ(complaint({}, entry(5, 5, Algorithm::ring)), "there is no size from 5 bytes to below 5");
  EXPECT_EQ(complaint({}, entry(-1, 5, Algorithm::ring)), "there is no size from -1 bytes to below 5");
  TableEntry wrong = entry(0, 5, Algorithm::ring);
  wrong.shape.ranks = 3;
  EXPECT_EQ(complaint({}, wrong), "3 ranks cannot be on 1 nodes with 2 to 2 on each");
  wrong = entry(0, 5, Algorithm::ring);
  wrong.choice.segment = {0};
  EXPECT_EQ(complaint({}, wrong), "the segment is 0 bytes; it must be at least 1");
  wrong = entry(0, 5, Algorithm::ring);
  wrong.choice.blocks_in_flight = 65;
  EXPECT_EQ(complaint({}, wrong), "the blocks in flight are 65; they must be from 1 to 64");
}

TEST(Choose, PrefersForceToTheTableAndTheTableToTheModel) {
  Selection selection{.shape = two_on_one};
  selection.table.add(entry(1000, 2000, Algorithm::double_tree));
  const Decision tabled = choose(selection, CollectiveKind::all_reduce, {1500});
  EXPECT_EQ(tabled.reason, Reason::table);
  EXPECT_EQ(tabled.choice, (Choice{Algorithm::double_tree, {4096}, 3}));
  EXPECT_EQ(tabled.entry, selection.table.entries().front());
  EXPECT_EQ(choose(selection, CollectiveKind::all_reduce, {2000}).reason, Reason::cost_model);
  EXPECT_EQ(choose(selection, CollectiveKind::broadcast, {1500}).reason, Reason::cost_model);

  selection.forced = Choice{Algorithm::halving_doubling, {77}, 5};
  const Decision obeyed = choose(selection, CollectiveKind::all_reduce, {1500});
  EXPECT_EQ(obeyed.reason, Reason::forced);
  EXPECT_EQ(obeyed.choice, *selection.forced);
  EXPECT_EQ(obeyed.entry, std::nullopt);
}

TEST(Choose, WithoutATableTakesTheCheapestByTheModel) {
  for (const ShapeSummary& shape : {on_one_node(1), two_on_one, on_one_node(5), eight_on_two, one_on_each(1024)}) {
    for (std::int64_t bytes = 1; bytes <= std::int64_t{1} << 40; bytes *= 8) {
      const Selection selection{.shape = shape, .untuned = {.segment = {1 << 16}, .blocks_in_flight = 4}};
      const Decision decision = choose(selection, CollectiveKind::all_reduce, {bytes});
      EXPECT_EQ(decision.reason, Reason::cost_model);
      EXPECT_EQ(decision.choice,
                with_useful_blocks({decision.choice.algorithm, {1 << 16}, 4, decision.choice.radix}, shape));
      for (const Algorithm algorithm : candidates(CollectiveKind::all_reduce, shape)) {
        for (const int radix : useful_radices(CollectiveKind::all_reduce, algorithm, shape)) {
          const Choice other = with_useful_blocks({algorithm, {1 << 16}, 4, radix}, shape);
          EXPECT_LE(decision.predicted_seconds,
                    predicted_seconds(other, CollectiveKind::all_reduce, {bytes}, selection))
              << name(algorithm) << ", radix " << radix << ", at " << bytes << " bytes on " << describe(shape);
        }
      }
    }
  }
}

TEST(UsefulRadices, GoUpToTheRanksThatExchange) {
  using Radices = std::vector<int>;
  constexpr auto kind = CollectiveKind::all_reduce;
  EXPECT_EQ(useful_radices(kind, Algorithm::recursive_doubling, one_on_each(2)), Radices({2}));
  EXPECT_EQ(useful_radices(kind, Algorithm::halving_doubling, one_on_each(9)), Radices({2, 4, 8}));
  EXPECT_EQ(useful_radices(kind, Algorithm::halving_doubling, one_on_each(1024)), Radices({2, 4, 8, 16, 32}));
  EXPECT_EQ(useful_radices(kind, Algorithm::hierarchical_recursive_doubling, eight_on_two), Radices({2}))
      << "two nodes";
  EXPECT_EQ(useful_radices(kind, Algorithm::ring, one_on_each(1024)), Radices({2}));
  EXPECT_EQ(useful_radices(CollectiveKind::broadcast, Algorithm::ring, one_on_each(1024)), Radices({2}));
}

/// Several messages within one latency are worthwhile if messages spend most of their time on the wire and the buffer
/// is small.
TEST(Choose, TakesALargeRadixWhereTheWireIsWhatTakesTime) {
  Selection selection{.shape = one_on_each(1024)};
  const auto chosen = [&](std::int64_t bytes) { return choose(selection, CollectiveKind::all_reduce, {bytes}).choice; };
  EXPECT_EQ(chosen(1024).algorithm, Algorithm::recursive_doubling);
  EXPECT_GT(chosen(1024).radix, 2);
  EXPECT_EQ(chosen(1 << 20).algorithm, Algorithm::halving_doubling);
  EXPECT_GT(chosen(1 << 20).radix, 2);
  selection.prices.messages.remote.wire_seconds = 0;
  EXPECT_EQ(chosen(1024).radix, 2);
  EXPECT_EQ(chosen(1 << 20).radix, 2);
}

TEST(Choose, TakesTheRadixOfTheTable) {
  Selection selection{.shape = one_on_each(64)};
  TableEntry wide{.shape = one_on_each(64), .choice = {.algorithm = Algorithm::recursive_doubling, .radix = 16}};
  selection.table.add(wide);
  EXPECT_EQ(choose(selection, CollectiveKind::all_reduce, {1 << 30}).choice.radix, 16);
  wide.choice.radix = 1;
  EXPECT_EQ(complaint({}, wide), "the radix is 1; it must be at least 2");
}

TEST(Choose, HasTwoBlocksInFlightThroughSharedMemory) {
  const auto in_flight = [](const Choice& choice, const ShapeSummary& shape) {
    return with_useful_blocks(choice, shape).blocks_in_flight;
  };
  EXPECT_EQ(in_flight({.algorithm = Algorithm::shared_memory, .blocks_in_flight = 4}, two_on_one), 2);
  EXPECT_EQ(in_flight({.algorithm = Algorithm::shared_memory, .blocks_in_flight = 1}, two_on_one), 1);
  EXPECT_EQ(in_flight({.algorithm = Algorithm::hierarchical_ring, .blocks_in_flight = 4}, eight_on_two), 4);
  EXPECT_EQ(in_flight({.algorithm = Algorithm::hierarchical_ring, .blocks_in_flight = 4}, two_on_one), 2);
  EXPECT_EQ(in_flight({.algorithm = Algorithm::ring, .blocks_in_flight = 4}, two_on_one), 4);
}

/// Returns the shape of `nodes` nodes with the same number of ranks each.
ClusterShape nodes_of(int nodes, int ranks_per_node) {
  ClusterShape shape;
  for (int rank = 0; rank < nodes * ranks_per_node; ++rank) shape.node_of_rank.push_back(rank / ranks_per_node);
  return shape;
}

TEST(Choose, AddsInTreeOrderThroughSharedMemoryWhereThatKeepsTheOrder) {
  const auto chosen = [](const ClusterShape& shape, bool shared_memory) {
    Selection selection = selection_on(shape, forced({.algorithm = Algorithm::tree_order}));
    selection.shared_memory = shared_memory;
    EXPECT_EQ(may_share_memory(selection),
              uses_shared_memory(choose(selection, CollectiveKind::all_reduce, {1000}).choice.algorithm));
    return choose(selection, CollectiveKind::all_reduce, {1000}).choice.algorithm;
  };
  for (const ClusterShape& shape : {nodes_of(1, 3), nodes_of(1, 8), nodes_of(3, 4), ClusterShape{{0, 0, 1}}}) {
    EXPECT_EQ(chosen(shape, true), Algorithm::hierarchical_tree_order);
    EXPECT_EQ(chosen(shape, false), Algorithm::tree_order);
  }
  for (const ClusterShape& shape :
       {nodes_of(2, 3), ClusterShape{{0, 1, 1}}, ClusterShape{{0, 0, 1, 1, 1, 1}}, ClusterShape{{0, 1, 0, 1}}})
    EXPECT_EQ(chosen(shape, true), Algorithm::tree_order) << "the nodes' ranks are no subtrees";
  EXPECT_EQ(chosen(nodes_of(1, 1), true), Algorithm::tree_order) << "nobody to share memory with";
}

TEST(Choose, AddsByCacheOnANodeOfManyRanks) {
  const auto chosen = [](Selection selection, const CollectiveKind kind = CollectiveKind::all_reduce) {
    selection = selection_on(nodes_of(1, 64), selection);
    selection.ranks_per_cache = 8;
    EXPECT_EQ(adds_by_cache(selection), !selection.forced || is_canonical(selection));
    return choose(selection, kind, {1000});
  };
  const Decision automatic = chosen({});
  EXPECT_EQ(automatic.choice.algorithm, Algorithm::hierarchical_tree_order);
  EXPECT_EQ(automatic.reason, Reason::cost_model);
  EXPECT_DOUBLE_EQ(automatic.predicted_seconds,
                   std::min(pull_by_cache_seconds(64, 8, {1000}, default_prices().shared_memory),
                            slices_by_cache_seconds(64, 8, {1000}, default_prices().shared_memory)));
  EXPECT_EQ(chosen({}, CollectiveKind::broadcast).choice.algorithm, Algorithm::shared_memory);
  EXPECT_EQ(chosen(forced({.algorithm = Algorithm::shared_memory})).choice.algorithm, Algorithm::shared_memory);
  EXPECT_EQ(chosen(forced({.algorithm = Algorithm::tree_order})).choice.algorithm, Algorithm::hierarchical_tree_order);
  Selection tuned;
  tuned.table.add({.kind = CollectiveKind::all_reduce,
                   .shape = summarize(nodes_of(1, 64)),
                   .choice = {.algorithm = Algorithm::shared_memory}});
  EXPECT_EQ(chosen(tuned).choice.algorithm, Algorithm::shared_memory);
  Selection on_nodes = selection_on(nodes_of(2, 64));
  on_nodes.ranks_per_cache = 8;
  EXPECT_TRUE(adds_by_cache(on_nodes));
  EXPECT_TRUE(uses_shared_memory(choose(on_nodes, CollectiveKind::all_reduce, {1000}).choice.algorithm));
  on_nodes.shape = summarize({{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}});
  EXPECT_FALSE(adds_by_cache(on_nodes)) << "unequal nodes";
}

TEST(SelectionOn, RefusesATreeOrderOfNodesThatBreaksTheOrder) {
  const Selection nodewise = forced({.algorithm = Algorithm::hierarchical_tree_order});
  EXPECT_EQ(selection_on(nodes_of(2, 4), nodewise).forced->algorithm, Algorithm::hierarchical_tree_order);
  try {
    (void)selection_on(nodes_of(2, 3), nodewise);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'hierarchical-tree-order' needs nodes of 2^k consecutive ranks"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW((void)selection_on(nodes_of(2, 1), forced({.algorithm = Algorithm::shared_memory})), Error);
}

TEST(Choose, WithoutATableAgreesWithTheTextbook) {
  const auto best = [](const ShapeSummary& shape, std::int64_t bytes) {
    return choose({.shape = shape, .shared_memory = false}, CollectiveKind::all_reduce, {bytes}).choice.algorithm;
  };
  for (const ShapeSummary& shape : {two_on_one, on_one_node(8), one_on_each(64)}) {
    EXPECT_EQ(best(shape, 4), Algorithm::recursive_doubling) << describe(shape);
  }
  EXPECT_EQ(best(on_one_node(5), 64 << 20), Algorithm::ring) << "nobody is folded";
  EXPECT_NE(best(one_on_each(1024), 1 << 20), Algorithm::ring) << "2046 rounds";
}

TEST(Choose, SharesMemoryWhereItCan) {
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::reduce, CollectiveKind::all_to_all,
                                    CollectiveKind::barrier, CollectiveKind::gather, CollectiveKind::scatter}) {
    EXPECT_EQ(choose({.shape = on_one_node(4)}, kind, {1 << 20}).choice.algorithm, Algorithm::shared_memory);
  }
  const Selection two_levels{.shape = eight_on_two};
  EXPECT_TRUE(uses_shared_memory(choose(two_levels, CollectiveKind::all_reduce, {1 << 24}).choice.algorithm));
  EXPECT_TRUE(may_share_memory(two_levels));
  EXPECT_FALSE(may_share_memory({.shape = one_on_each(8)}));
  EXPECT_FALSE(may_share_memory({.shape = on_one_node(1)}));
  EXPECT_FALSE(may_share_memory({.shape = two_on_one, .forced = Choice{}}));
  EXPECT_TRUE(may_share_memory({.shape = two_on_one, .forced = Choice{.algorithm = Algorithm::shared_memory}}));
}

TEST(Choose, DoesWithoutSharedMemoryWhereThereIsNone) {
  Selection selection{.shape = two_on_one, .shared_memory = false};
  selection.table.add(entry(0, TableEntry::no_end.value, Algorithm::shared_memory));
  const Decision decision = choose(selection, CollectiveKind::all_reduce, {1 << 20});
  EXPECT_EQ(decision.reason, Reason::cost_model);
  EXPECT_FALSE(uses_shared_memory(decision.choice.algorithm));
  EXPECT_FALSE(may_share_memory(selection));
  selection.shared_memory = true;
  EXPECT_EQ(choose(selection, CollectiveKind::all_reduce, {1 << 20}).reason, Reason::table);
}

TEST(Candidates, ShareMemoryWithinANodeAndInAHierarchyOfThem) {
  const auto has = [](const ShapeSummary& shape, Algorithm algorithm) {
    const auto all = candidates(CollectiveKind::all_reduce, shape);
    return std::find(all.begin(), all.end(), algorithm) != all.end();
  };
  EXPECT_TRUE(has(two_on_one, Algorithm::shared_memory));
  EXPECT_FALSE(has(two_on_one, Algorithm::hierarchical_ring)) << "the same as shared-memory";
  EXPECT_FALSE(has(eight_on_two, Algorithm::shared_memory));
  EXPECT_TRUE(has(eight_on_two, Algorithm::hierarchical_ring));
  EXPECT_FALSE(has(one_on_each(8), Algorithm::hierarchical_ring)) << "the same as ring";
  EXPECT_FALSE(has(on_one_node(1), Algorithm::shared_memory)) << "nobody to share with";
  EXPECT_THROW(require_applicable(Algorithm::shared_memory, eight_on_two), Error);
}

/// What users get by default changes only if a row says so. A tuning table may name any algorithm.
TEST(Candidates, AreThoseWhoseRowPermitsIt) {
  const Selection selection{.shape = one_on_each(6)};
  for (const Algorithm algorithm : message_algorithms) {
    const auto is_among = [&](SelectedBy by) {
      const auto priced = priced_candidates(selection, CollectiveKind::all_reduce, {1 << 16}, by);
      return std::any_of(priced.begin(), priced.end(),
                         [&](const PricedChoice& p) { return p.choice.algorithm == algorithm; });
    };
    const SelectedBy permitted = row_of(algorithm).selected_by;
    EXPECT_EQ(is_among(SelectedBy::cost_model), permitted == SelectedBy::cost_model) << name(algorithm);
    EXPECT_EQ(is_among(SelectedBy::tuning), permitted != SelectedBy::name) << name(algorithm);
    Selection tuned = selection;
    tuned.table.add({.shape = tuned.shape, .choice = {.algorithm = algorithm}});
    EXPECT_EQ(choose(tuned, CollectiveKind::all_reduce, {1 << 16}).choice.algorithm, algorithm);
  }
}

TEST(Choose, IsAnsweredForEveryOperation) {
  for (const CollectiveKind kind :
       {CollectiveKind::broadcast, CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::reduce,
        CollectiveKind::all_to_all, CollectiveKind::barrier, CollectiveKind::gather, CollectiveKind::scatter}) {
    const Decision decision = choose({.shape = one_on_each(8)}, kind, {1 << 20});
    EXPECT_EQ(decision.choice, Choice{}) << name(kind);
    EXPECT_GT(decision.predicted_seconds, 0) << name(kind);
  }
}

TEST(Choose, NeverHasMoreBlocksInFlightThanItSays) {
  Selection selection{.shape = two_on_one, .untuned = {.blocks_in_flight = 2}};
  EXPECT_EQ(max_blocks_in_flight(selection), 2);
  selection.table.add(entry(0, 10, Algorithm::ring));
  EXPECT_EQ(max_blocks_in_flight(selection), 3);
  TableEntry elsewhere = entry(0, 10, Algorithm::ring);
  elsewhere.shape = eight_on_two;
  elsewhere.choice.blocks_in_flight = 7;
  selection.table.add(elsewhere);
  EXPECT_EQ(max_blocks_in_flight(selection), 3) << "another cluster's";
  selection.forced = Choice{.blocks_in_flight = 1};
  EXPECT_EQ(max_blocks_in_flight(selection), 1);
}

Selection priced(const ShapeSummary& shape, const Prices& prices) { return {.shape = shape, .prices = prices}; }

TEST(Prediction, OfOneBlockIsTheClosedFormula) {
  constexpr Prices prices{.messages = {.local = {5, 0.25}, .remote = {7, 0.5}, .gamma_seconds_per_byte = 0.125}};
  for (const Algorithm algorithm : message_algorithms) {
    const Choice whole{algorithm, {1 << 20}, 2};
    const auto predicted = [&](const ShapeSummary& shape) {
      return predicted_seconds(whole, CollectiveKind::all_reduce, {1 << 16}, priced(shape, prices));
    };
    EXPECT_DOUBLE_EQ(predicted(on_one_node(6)), all_reduce_seconds(algorithm, 6, {1 << 16}, alike({5, 0.25, 0.125})));
    EXPECT_DOUBLE_EQ(predicted(one_on_each(6)), all_reduce_seconds(algorithm, 6, {1 << 16}, alike({7, 0.5, 0.125})));
  }
}

/// Eight lanes share one link, so data that leave a node take as long as if one rank sent them all. Rings and trees
/// have the link for themselves, unless neighbors in rank are on different nodes.
TEST(Prediction, SharesTheLinkOfANode) {
  constexpr Prices prices{.messages = {.local = {0, 0}, .remote = {0, 1}}};
  const ShapeSummary two_of_eight{2, 16, 8, 8};
  Selection selection = priced(two_of_eight, prices);
  const auto predicted = [&](Algorithm algorithm) {
    return predicted_seconds({algorithm, {1 << 20}}, CollectiveKind::all_reduce, {1600}, selection);
  };
  EXPECT_DOUBLE_EQ(predicted(Algorithm::hierarchical_ring), 1600);
  EXPECT_DOUBLE_EQ(predicted(Algorithm::hierarchical_halving_doubling), 1600);
  EXPECT_DOUBLE_EQ(predicted(Algorithm::halving_doubling), 1600) << "the smallest exchange only";
  EXPECT_DOUBLE_EQ(predicted(Algorithm::recursive_doubling), 8 * 1600);
  EXPECT_DOUBLE_EQ(predicted(Algorithm::ring), 2 * 15 * 100);
  const double to_all = predicted_seconds({}, CollectiveKind::all_to_all, {100}, selection);
  EXPECT_DOUBLE_EQ(to_all, 8 * 15 * 100) << "all of a node's ranks send at once";
  selection.consecutive_nodes = false;
  EXPECT_DOUBLE_EQ(predicted(Algorithm::hierarchical_ring), 1600);
  EXPECT_DOUBLE_EQ(predicted(Algorithm::halving_doubling), 8 * 2 * 15 * 100);
  EXPECT_DOUBLE_EQ(predicted(Algorithm::ring), 8 * 2 * 15 * 100);
}

TEST(SelectionOn, SeesWhetherRanksAreNumberedNodeByNode) {
  for (const ClusterShape& shape : {ClusterShape{{0, 0, 0}}, {{0, 1, 2}}, {{0, 0, 1, 1}}, {{1, 1, 0}}})
    EXPECT_TRUE(selection_on(shape).consecutive_nodes);
  for (const ClusterShape& shape : {ClusterShape{{0, 1, 0}}, {{0, 1, 0, 1}}})
    EXPECT_FALSE(selection_on(shape).consecutive_nodes);
}

TEST(Prediction, MoreBlocksInFlightHideLatencyButNotBytes) {
  const Bytes bytes{64 << 20};
  const Selection sixteen{.shape = on_one_node(16)};
  for (const Algorithm algorithm : message_algorithms) {
    double before = std::numeric_limits<double>::infinity();
    for (const int in_flight : {1, 2, 4, 8, 1000}) {
      const Choice choice{algorithm, {1 << 15}, in_flight};
      const double seconds = predicted_seconds(choice, CollectiveKind::all_reduce, bytes, sixteen);
      EXPECT_LE(seconds, before) << name(algorithm);
      before = seconds;
    }
    EXPECT_GT(before, 1.8 * static_cast<double>(bytes.value) * sixteen.prices.messages.local.beta_seconds_per_byte)
        << name(algorithm);
  }
}

TEST(Prediction, OfAnEmptyBufferOrOneRankIsFinite) {
  for (const Algorithm algorithm : message_algorithms) {
    const Choice choice{algorithm};
    EXPECT_EQ(predicted_seconds(choice, CollectiveKind::all_reduce, {1 << 30}, {.shape = on_one_node(1)}), 0);
    EXPECT_GT(predicted_seconds(choice, CollectiveKind::all_reduce, {0}, {.shape = two_on_one}), 0);
  }
}

/// The list and the choice use the same model.
TEST(PricedCandidates, BeginWithTheChoice) {
  for (const ShapeSummary& shape : {two_on_one, eight_on_two, one_on_each(64), ShapeSummary{128, 1024, 8, 8}})
    for (const std::int64_t bytes : {4, 1 << 10, 1 << 20, 100 << 20}) {
      const Selection selection{.shape = shape};
      const auto all = priced_candidates(selection, CollectiveKind::all_reduce, {bytes});
      const Decision chosen = choose(selection, CollectiveKind::all_reduce, {bytes});
      EXPECT_EQ(chosen.choice, all.front().choice);
      EXPECT_EQ(chosen.predicted_seconds, all.front().predicted_seconds);
      const auto cheaper = [](const PricedChoice& a, const PricedChoice& b) {
        return a.predicted_seconds < b.predicted_seconds;
      };
      EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), cheaper));
      for (const PricedChoice& p : all) {
        EXPECT_EQ(p.predicted_seconds, predicted_seconds(p.choice, CollectiveKind::all_reduce, {bytes}, selection));
      }
    }
}

TEST(PricedCandidates, HaveEachRadixThatMakesADifference) {
  const Selection selection{.shape = one_on_each(16)};
  const auto all = priced_candidates(selection, CollectiveKind::all_reduce, {1 << 20});
  const auto count = [&](Algorithm algorithm) {
    return std::count_if(all.begin(), all.end(),
                         [&](const PricedChoice& p) { return p.choice.algorithm == algorithm; });
  };
  EXPECT_EQ(count(Algorithm::ring), 1);
  EXPECT_EQ(count(Algorithm::halving_doubling), 4) << "2, 4, 8, 16";
  EXPECT_EQ(count(Algorithm::recursive_doubling), 4);
  EXPECT_EQ(all.size(), 10U);
}

}  // namespace
}  // namespace lockstep::collectives
