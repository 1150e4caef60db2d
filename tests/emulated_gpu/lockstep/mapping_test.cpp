// SPDX-License-Identifier: Apache-2.0
// Tests the assignment of GPUs to ranks for the ways in which launchers show GPUs and bind processes, and that `topo`
// shows the same.
#include <gtest/gtest.h>
#include <sched.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

constexpr const char* first_uuid = "GPU-1b000000-1111-2222-3333-444400000000";
constexpr const char* third_uuid = "GPU-52000000-1111-2222-3333-444400000002";

struct Job {
  int ranks = 1;
  std::string machine = "eight_gpus";
  std::string environment;
  std::string arguments;
  std::string places;  ///< hwloc's description of the machine, if it is not that of the GPUs
  std::string shell;   ///< commands that the shell of each rank runs before
};

std::string output_of(const Job& job, const std::string& program) {
  const std::string machines = LOCKSTEP_MACHINES "/";
  const std::string places = job.places.empty() ? job.machine : job.places;
  // The launcher must see the real machine, because Open MPI 5's starts nothing on a machine whose cores it may not
  // use.
  const ProgramResult result =
      run_program("env EMULATED_GPU_MACHINE=" + machines + job.machine + ".json " + job.environment + ' ' +
                  LOCKSTEP_MPIEXEC + " -n " + std::to_string(job.ranks) + " sh -c 'export HWLOC_XMLFILE=" + machines +
                  places + ".xml; " + job.shell + " exec \"$@\"' sh " + program + ' ' + job.arguments + " 2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

/// Returns the words of each rank, by rank.
std::vector<std::string> said(const Job& job) {
  const std::string output = output_of(job, LOCKSTEP_MAPPED_RANK);
  std::vector<std::string> words;
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::smatch line;
    const bool found = std::regex_search(output, line, std::regex("rank " + std::to_string(rank) + ": (.*)\n"));
    EXPECT_TRUE(found) << "of rank " << rank << "\n" << output;
    words.push_back(found ? line[1].str() : "");
  }
  return words;
}

/// Returns the GPU of each rank as "index bus".
std::vector<std::string> mapping(const Job& job) {
  std::vector<std::string> gpus;
  for (const std::string& words : said(job))
    gpus.push_back(std::regex_replace(words, std::regex("GPU (\\d+) 0000:(..):00.0 .*"), "$1 $2"));
  return gpus;
}

using Gpus = std::vector<std::string>;

void expect_refusal(const Job& job, const std::vector<std::string>& parts) {
  for (const std::string& words : said(job)) {
    EXPECT_EQ(words.find("all refused: "), 0U) << words;
    for (const std::string& part : parts) EXPECT_NE(words.find(part), std::string::npos) << part << "\n" << words;
  }
}

TEST(Mapping, GivesRanksThatAreNotBoundTheGpusInOrder) {
  const Gpus all = {"0 1b", "1 43", "2 52", "3 61", "4 9d", "5 c3", "6 d1", "7 df"};
  for (const int ranks : {1, 4, 8}) EXPECT_EQ(mapping({.ranks = ranks}), Gpus(all.begin(), all.begin() + ranks));
}

TEST(Mapping, GoesByTheIndicesOfWhatIsVisible) {
  EXPECT_EQ(mapping({.ranks = 3, .environment = "CUDA_VISIBLE_DEVICES=6,2,0"}), (Gpus{"0 d1", "1 52", "2 1b"}));
  EXPECT_EQ(mapping({.ranks = 2, .environment = std::string("CUDA_VISIBLE_DEVICES=") + third_uuid + "," + first_uuid}),
            (Gpus{"0 52", "1 1b"}));
  EXPECT_EQ(mapping({.ranks = 2, .environment = "CUDA_VISIBLE_DEVICES=GPU-d1,GPU-43,12,0"}), (Gpus{"0 d1", "1 43"}));
  expect_refusal({.ranks = 3, .environment = "CUDA_VISIBLE_DEVICES=GPU-d1,GPU-43,12,0"},
                 {"has 3 ranks, which see 2 GPUs"});
}

TEST(Mapping, TakesTheOneThatTheLauncherShowsEachRank) {
  EXPECT_EQ(mapping({.ranks = 4, .arguments = "--show 3:2:5:0"}), (Gpus{"0 61", "0 52", "0 c3", "0 1b"}));
  EXPECT_EQ(mapping({.ranks = 4, .arguments = "--show 0,1:4,5:0,1:4,5"}), (Gpus{"0 1b", "0 9d", "1 43", "1 c3"}))
      << "those of a socket each";
  EXPECT_EQ(mapping({.ranks = 3, .arguments = "--show 2:5,6:2,5"}), (Gpus{"0 52", "1 d1", "1 c3"}))
      << "the second makes way";
}

/// Returns an even and an odd processor, which are on different packages in the description.
std::vector<int> processors_of_both_packages() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::vector<int> found = {-1, -1};
  for (int processor = 63; processor >= 0; --processor)
    if (CPU_ISSET(static_cast<std::size_t>(processor), &allowed))
      found[static_cast<std::size_t>(processor % 2)] = processor;
  return found[0] < 0 || found[1] < 0 ? std::vector<int>() : found;
}

TEST(Mapping, PrefersGpusNearTheProcessorsOfARank) {
  const std::vector<int> processors = processors_of_both_packages();
  if (processors.empty()) GTEST_SKIP() << "needs an even and an odd processor below 64";
  const std::string even = std::to_string(processors[0]);
  const std::string odd = std::to_string(processors[1]);
  const Job crossed{.ranks = 4,
                    .environment = "HWLOC_THISSYSTEM=1",
                    .arguments = "--bind " + odd + ":" + even + ":" + odd + ":" + even};
  EXPECT_EQ(mapping(crossed), (Gpus{"4 9d", "0 1b", "5 c3", "1 43"}));
  Job reversed = crossed;
  reversed.ranks = 3;
  reversed.environment += " CUDA_VISIBLE_DEVICES=7,6,3,2";
  EXPECT_EQ(mapping(reversed), (Gpus{"0 df", "2 61", "1 d1"}));
  Job unknown = crossed;
  unknown.ranks = 2;
  unknown.places = "mig";  // six of them are not in that description
  unknown.environment += " CUDA_VISIBLE_DEVICES=1,2";
  EXPECT_EQ(mapping(unknown), (Gpus{"0 43", "1 52"}));
}

TEST(Mapping, GivesEachRankItsInstanceOfADividedGpu) {
  const auto words = said({.ranks = 2,
                           .machine = "mig",
                           .arguments = "--show MIG-12000000-5555-6666-7777-888800000000:"
                                        "MIG-01000000-5555-6666-7777-888800000000"});
  EXPECT_EQ(words[0].find("GPU 0 0000:9d:00.0 "), 0U) << words[0];
  EXPECT_NE(words[0].find("MIG-12000000-5555"), std::string::npos) << words[0];
  EXPECT_EQ(words[1].find("GPU 0 0000:1b:00.0 "), 0U) << words[1];
  EXPECT_NE(words[1].find("MIG-01000000-5555"), std::string::npos) << words[1];
}

TEST(Mapping, RefusesMoreRanksThanGpusOnEveryRank) {
  expect_refusal({.ranks = 9}, {"host ", "has 9 ranks, which see 8 GPUs", "Start no more than 8 there"});
  expect_refusal({.ranks = 2, .machine = "one_gpu", .places = "eight_gpus"},
                 {std::string("has 2 ranks, which see 1 GPU (") + first_uuid + ")"});
  expect_refusal({.ranks = 2, .machine = "mig"}, {"which see 1 GPU ("});
}

TEST(Mapping, RefusesTwoRanksOnOneGpu) {
  expect_refusal({.ranks = 3, .arguments = "--show 2:5,6:2"},
                 {std::string("ranks 0 and 2 have the same GPU, ") + third_uuid, "rank 0 on "});
  expect_refusal({.ranks = 2,
                  .machine = "mig",
                  .arguments = "--show MIG-01000000-5555-6666-7777-888800000000:"
                               "MIG-02000000-5555-6666-7777-888800000000"},
                 {"ranks 0 and 1 have instances of one GPU, 0000:1b:00.0, and NCCL 2."});
}

/// So operations of several ranks can be tried on a machine with one GPU.
TEST(Mapping, LetsRanksOfTestsShareAGpuThatNcclTakesForTwo) {
  Job shared{.ranks = 2, .machine = "one_gpu", .environment = "LOCKSTEP_TEST_SHARED_GPU=1", .places = "eight_gpus"};
  for (const std::string& words : said(shared)) EXPECT_NE(words.find("Duplicate GPU"), std::string::npos) << words;
  shared.shell = "export NCCL_HOSTID=r${OMPI_COMM_WORLD_RANK:-$PMI_RANK};";
  EXPECT_EQ(mapping(shared), (Gpus{"0 1b", "0 1b"}));
}

TEST(Mapping, RefusesWhereARankSeesNone) {
  expect_refusal({.ranks = 2, .arguments = "--show 0:-1"}, {"no group on GPUs"});
}

/// Each rank sees one GPU, from the last to the first, as in a cgroup that hides the others; hwloc sees all of them.
Job in_cgroups(int ranks) {
  return {.ranks = ranks,
          .environment = "CUDA_VISIBLE_DEVICES=0",
          .shell =
              "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; "
              "export EMULATED_GPU_MACHINE=" LOCKSTEP_SINGLE_GPUS "/gpu$((7 - rank)).json;"};
}

TEST(Mapping, TakesTheOneThatACgroupLeavesEachRank) {
  EXPECT_EQ(mapping(in_cgroups(3)), (Gpus{"0 df", "0 d1", "0 c3"}));
}

/// Returns the GPUs that `topo` prints, as "index bus".
Gpus shown_by_topo(Job job) {
  job.arguments = "--json";
  const auto cluster = nlohmann::json::parse(output_of(job, LOCKSTEP_TOPO));
  Gpus gpus;
  for (const auto& process : cluster.at("hosts").at(0).at("processes")) {
    const auto& gpu = process.at("gpu");
    gpus.push_back(std::to_string(gpu.at("device").get<int>()) + ' ' +
                   gpu.at("pci_bus_id").get<std::string>().substr(5, 2));
    EXPECT_EQ(gpu.at("model").get<std::string>().find("NVIDIA H100"), 0U) << gpu;
    EXPECT_EQ(gpu.at("uuid").get<std::string>().size(), std::string(first_uuid).size()) << gpu;
  }
  return gpus;
}

TEST(Topo, ShowsTheGpusThatAGroupTakes) {
  EXPECT_EQ(shown_by_topo(in_cgroups(3)), (Gpus{"0 df", "0 d1", "0 c3"}));
  EXPECT_EQ(shown_by_topo({.ranks = 2, .environment = "CUDA_VISIBLE_DEVICES=5,1"}), (Gpus{"0 c3", "1 43"}));
  EXPECT_EQ(shown_by_topo({.environment = std::string("CUDA_VISIBLE_DEVICES=") + third_uuid}), (Gpus{"0 52"}))
      << "hwloc's description has no UUIDs";
  EXPECT_EQ(
      shown_by_topo({.machine = "mig", .environment = "CUDA_VISIBLE_DEVICES=MIG-11000000-5555-6666-7777-888800000000"}),
      (Gpus{"0 9d"}));
}

}  // namespace
}  // namespace lockstep::testing_support
