// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/comm-bench/report.hpp"
#include "apps/comm_bench/command_line.hpp"

namespace lockstep::comm_bench {
namespace {

TEST(Options, TakesTheDocumentedCommand) {
  const Options o = parse({"--op", "all_reduce", "--min", "4", "--max", "256M", "--factor", "4", "--algorithm",
                           "ring,tree,halving-doubling,recursive-doubling,mpi", "--json", "file"});
  EXPECT_EQ(o.op, CollectiveKind::all_reduce);
  EXPECT_EQ(o.sizes.min, Bytes{4});
  EXPECT_EQ(o.sizes.max, Bytes{256 << 20});
  EXPECT_EQ(o.sizes.factor, 4);
  EXPECT_EQ(o.algorithms, (std::vector<std::string>{"ring", "tree", "halving-doubling", "recursive-doubling", "mpi"}));
  EXPECT_EQ(o.json, "file");
}

TEST(Options, NameTheNearestOfAMisspeltWord) {
  expect_complaint({"--op", "allreduce"}, "--op allreduce: there is no such choice; did you mean 'all_reduce'?");
  expect_complaint({"--algorithm", "mpi,rign"}, "there is no all_reduce algorithm 'rign'; did you mean 'ring'?");
  expect_complaint({"--op", "broadcast", "--algorithm", "binominal"}, "did you mean 'binomial'?");
  expect_complaint({"--dtype", "float23"}, "--dtype float23: there is no such choice; did you mean 'float32'?");
  expect_complaint({"--repetition", "3"}, "there is no option '--repetition'; did you mean '--repetitions'?");
}

TEST(Options, RefuseWhatCannotBeMeasured) {
  expect_complaint({"--min", "8K", "--max", "4K"}, "--min (8192 bytes) is larger than --max (4096)");
  expect_complaint({"--factor", "1"}, "--factor 1: it must be a whole number from 2 to 1000000000");
  expect_complaint({"--radix", "1"}, "--radix 1: it must be a whole number from 2 to 1000000000");
  expect_complaint({"--warmup", "0"}, "--warmup 0: it must be ");
  expect_complaint({"--repetitions", "-1"}, "--repetitions -1: it must be ");
  expect_complaint({"--seconds", "0"}, "--seconds 0: it must be a number above 0");
  expect_complaint({"--comm-timeout", "nan"}, "--comm-timeout nan: it must be a number ");
  expect_complaint({"--algorithm", "ring,mpi,ring"}, "names 'ring' twice");
  expect_complaint({"--algorithm", ""}, "--algorithm '': it must be a text, not empty");
  expect_complaint({"--factor", "four"}, "--factor four: it must be ");
  expect_complaint({"256M"}, "'256M' belongs to no option");
}

TEST(Options, CheckIsOffUnlessAskedFor) {
  EXPECT_FALSE(parse({}).group.check);
  EXPECT_TRUE(parse({"--check", "--algorithm", "ring,mpi-native"}).group.check);
}

TEST(Options, TuningIsForTheAlgorithmThatChooses) {
  const Options o = parse({"--tuning", "file"});
  EXPECT_EQ(o.algorithms.front(), "auto");
  EXPECT_EQ(o.group.tuning, "file");
  EXPECT_EQ(parse({"--tune", "file"}).tune, "file");
  EXPECT_TRUE(parse({"--explain", "--algorithm", "ring"}).explain);
  expect_complaint({"--tuning", "file", "--algorithm", "ring,mpi"}, "--tuning is for the algorithm 'auto'");
  expect_complaint({"--tune", "file", "--tuning", "file"}, "--tune measures for its own purpose");
  expect_complaint({"--tune", "file", "--explain"}, "--tune measures for its own purpose");
  expect_complaint({"--explain", "--json", "file"}, "--explain measures nothing");
}

TEST(Options, ACudaDeviceHasNcclsAlgorithmsAndNothingOfTheProcessors) {
  EXPECT_EQ(parse({}).group.device, Device::cpu);
  const Options o = parse({"--device", "cuda"});
  EXPECT_EQ(o.group.device, Device::cuda);
  EXPECT_EQ(o.algorithms, std::vector<std::string>{"auto"});
  EXPECT_EQ(parse({"--device", "cuda", "--algorithm", "tree,tree-order"}).algorithms,
            (std::vector<std::string>{"tree", "tree-order"}));
  expect_complaint({"--device", "cudda"}, "--device cudda: there is no such choice; did you mean 'cuda'?");
  expect_complaint({"--device", "cuda", "--algorithm", "shared-memory"},
                   "there is no all_reduce algorithm on cuda 'shared-memory'");
  expect_complaint({"--device", "cuda", "--algorithm", "mpi"}, "there is no all_reduce algorithm on cuda 'mpi'");
  expect_complaint({"--device", "cuda", "--op", "broadcast", "--algorithm", "ring"},
                   "there is no broadcast algorithm on cuda 'ring'");
  for (const std::vector<const char*>& meaningless :
       {std::vector{"--segment", "1K"}, std::vector{"--in-flight", "2"}, std::vector{"--radix", "4"},
        std::vector{"--tuning", "file"}, std::vector{"--tune", "file"}, std::vector{"--explain"},
        std::vector{"--predict"}, std::vector{"--buffers", "user"}}) {
    std::vector<const char*> arguments{"--device", "cuda"};
    arguments.insert(arguments.end(), meaningless.begin(), meaningless.end());
    expect_complaint(arguments, std::string(meaningless.front()));
    expect_complaint(arguments, "has no meaning with --device cuda");
  }
}

TEST(Options, SizesTakeSuffixes) {
  EXPECT_EQ(parse_size("1"), Bytes{1});
  EXPECT_EQ(parse_size("3k"), Bytes{3072});
  EXPECT_EQ(parse_size("16G"), Bytes{std::int64_t{16} << 30});
  for (const char* wrong : {"", "K", "0", "-4", "4X", "4KB", "1.5M", "99999999999999999999", "9999999999G"}) {
    EXPECT_THROW(parse_size(wrong), UsageError) << wrong;
  }
}

TEST(Sizes, GoUpToTheLargest) {
  const auto counts = part_counts({{4}, {1000}, 4}, 4, 1);
  EXPECT_EQ(counts, (std::vector<Count>{{1}, {4}, {16}, {64}}));
}

TEST(Sizes, AreWholeElementsInEveryPartAndNoneTwice) {
  const auto counts = part_counts({{4}, {1024}, 2}, 8, 3);
  EXPECT_EQ(counts, (std::vector<Count>{{1}, {2}, {5}, {10}, {21}, {42}}));
}

TEST(Sizes, EndAtTheLargestNumber) {
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_EQ(part_counts({{huge}, {huge + 1}, 4}, 1, 1), (std::vector<Count>{{huge}}));
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::reduce, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_to_all, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_reduce, 1), 0);
}

}  // namespace
}  // namespace lockstep::comm_bench
