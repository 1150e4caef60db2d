// SPDX-License-Identifier: Apache-2.0
// Every rank uses rank 0's selection.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backends/contract/checks.hpp"
#include "backends/contract/contract.hpp"
#include "backends/make_agreed.hpp"
#include "backends/selection_file.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;
using collectives::Reason;
using collectives::SelectionTable;
using collectives::ShapeSummary;
using collectives::TableEntry;

/// Each rank has its own folder with the same relative file name, as on nodes without a common file system.
class Agreement : public testing::Test {
 protected:
  void SetUp() override {
    const std::string job = broadcast_string(world_.group(), std::to_string(getpid()), {0});
    folder_ = std::filesystem::temp_directory_path() /
              ("lockstep-selection-" + job + "-" + std::to_string(world_.rank().value));
    std::filesystem::create_directories(folder_);
    home_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    std::filesystem::current_path(home_);
    std::filesystem::remove_all(folder_);
    world_.close();
  }

  [[nodiscard]] bool first() const { return world_.rank() == 0; }
  [[nodiscard]] ShapeSummary shape() const { return collectives::summarize(world_.shape()); }
  [[nodiscard]] static CommunicatorOptions options(const std::string& tuning) { return {.tuning = tuning}; }
  static void write(const std::string& file, const std::string& text) { std::ofstream(file) << text; }
  [[nodiscard]] SelectionTable table(Algorithm small, Algorithm large, int blocks_in_flight) const {
    SelectionTable table;
    table.add({CollectiveKind::all_reduce, shape(), {0}, {4096}, {small, {512}, 1}});
    table.add({CollectiveKind::all_reduce, shape(), {4096}, TableEntry::no_end, {large, {1024}, blocks_in_flight}});
    return table;
  }

  World world_;

 private:
  std::filesystem::path folder_;
  std::filesystem::path home_;
};

TEST_F(Agreement, EveryRankUsesTheTableOfRankZero) {
  const SelectionTable mine = first() ? table(Algorithm::double_tree, Algorithm::halving_doubling, 5)
                                      : table(Algorithm::ring, Algorithm::ring, 2);
  write("table.json", format_selection_table(mine));
  Progress progress({.spins_before_yield = 0});
  CommunicatorOptions agreed = options("table.json");
  agree_on(world_.group(), agreed);
  EXPECT_EQ(agreed.selection()->table, table(Algorithm::double_tree, Algorithm::halving_doubling, 5));
  EXPECT_EQ(agreed.selection()->shape, shape());
  const auto c = make_communicator(world_.group(), progress, agreed);
  for (const int count : {100, 100'000})
    contract::check_all_reduce(*c, contract::host_memory(), DType::float32, ReduceOp::sum, count, true);
  c->close();
}

TEST_F(Agreement, OnlyRankZeroNeedsTheFile) {
  const SelectionTable expected = table(Algorithm::double_tree, Algorithm::ring, 3);
  if (first()) write("table.json", format_selection_table(expected));
  EXPECT_EQ(agreed_selection_table(world_.group(), "table.json"), expected);
}

/// Returns the error, which must be the same on all ranks; rank 0's error is passed to every rank.
std::string common_complaint(const World& world, CommunicatorOptions options, ErrorCode code) {
  std::string mine = "nothing was thrown";
  try {
    agree_on(world.group(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_TRUE(error.is_on_every_rank());
    EXPECT_EQ(error.context().peers, std::vector<int>{0});
    mine = error.message();
  }
  for (const std::string& other : world.group().exchange(mine)) EXPECT_EQ(other, mine);
  return mine;
}

TEST_F(Agreement, AFileThatRankZeroCannotReadIsTheSameErrorOnEveryRank) {
  if (!first()) write("table.json", format_selection_table(table(Algorithm::ring, Algorithm::ring, 2)));
  EXPECT_EQ(common_complaint(world_, options("table.json"), ErrorCode::io),
            "cannot read 'table.json': No such file or directory");
}

TEST_F(Agreement, AFileThatRankZeroDoesNotUnderstandIsTheSameErrorOnEveryRank) {
  write("table.json", first() ? "{\"format\": 1}" : format_selection_table({}));
  EXPECT_EQ(common_complaint(world_, options("table.json"), ErrorCode::corrupt),
            "table.json: the key 'version' is missing");
}

TEST_F(Agreement, ANamedAlgorithmIsForcedAndReadsNoTable) {
  CommunicatorOptions named = options("missing.json");
  named.method = parse_method("tree");
  agree_on(world_.group(), named);
  EXPECT_EQ(choose(*named.selection(), CollectiveKind::all_reduce, {4}).reason, Reason::forced);
  EXPECT_EQ(choose(*named.selection(), CollectiveKind::all_reduce, {4}).choice.algorithm, Algorithm::double_tree);
  named.method = MpiLibrary{};
  agree_on(world_.group(), named);
  EXPECT_EQ(named.selection(), nullptr);
}

TEST_F(Agreement, TheContractHoldsWhereAlgorithmsAndBlocksInFlightChangeWithTheSize) {
  Progress progress({.spins_before_yield = 0});
  SelectionTable mixed = table(Algorithm::recursive_doubling, Algorithm::double_tree, 5);
  mixed.erase(CollectiveKind::all_reduce, shape());
  mixed.add({CollectiveKind::all_reduce, shape(), {0}, {100}, {Algorithm::recursive_doubling, {64}, 1}});
  mixed.add({CollectiveKind::all_reduce, shape(), {100}, {2000}, {Algorithm::double_tree, {256}, 5}});
  mixed.add({CollectiveKind::all_reduce, shape(), {2000}, {4000}, {Algorithm::halving_doubling, {128}, 3}});
  mixed.add({CollectiveKind::all_gather, shape(), {1}, {4000}, {Algorithm::ring, {100}, 4}});
  mixed.add({CollectiveKind::broadcast, shape(), {5}, {4000}, {Algorithm::ring, {100}, 1}});
  const auto c = plan_on(world_.group(), progress, {.selection = {.table = mixed}});
  contract::check_all(*c);
}

TEST_F(Agreement, TheContractHoldsByTheCostModel) {
  Progress progress({.spins_before_yield = 0});
  const auto c = make_agreed(world_.group(), progress, options(""));
  contract::check_all(*c);
}

TEST_F(Agreement, ASelectionThatCannotRunHereIsRefused) {
  Progress progress;
  const auto refused = [&](const collectives::Selection& wish) {
    EXPECT_THROW((void)plan_on(world_.group(), progress, {.selection = wish}), Error);
  };
  refused(collectives::forced({.radix = 1}));
  refused(collectives::forced({.blocks_in_flight = SelectionTable::max_blocks_in_flight + 1}));
  refused({.untuned = {.segment = {0}}});
}

TEST(Method, IsWhatItsNameSays) {
  for (const std::string_view known : method_names()) EXPECT_EQ(name(parse_method(known)), known);
  EXPECT_EQ(selection_of(parse_method("mpi")), nullptr);
  EXPECT_FALSE(selection_of(Method{})->forced);
  EXPECT_EQ(name(Method{}), "auto");
  for (const std::string_view known : {"tree-order", "hierarchical-tree-order"})
    EXPECT_TRUE(is_canonical(*selection_of(parse_method(known)))) << known;
  for (const std::string_view known : {"auto", "ring", "shared-memory"})
    EXPECT_FALSE(is_canonical(*selection_of(parse_method(known)))) << known;
}

}  // namespace
}  // namespace lockstep::backends
