// SPDX-License-Identifier: Apache-2.0
#include "mpi/cluster_view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/wrapped.hpp"
#include "platform/machines.hpp"

namespace lockstep {
namespace {

using testing_machines::two_packages_four_gpus;

/// Makes `hosts` machines of two packages and four GPUs with `local` ranks each, all bound to `pus`.
ClusterView make_cluster(int hosts, int local, const std::string& pus) {
  ClusterView view;
  for (int node = 0; node < hosts; ++node) {
    const std::string name = "node" + std::to_string(node);
    view.hosts.push_back({.name = name, .machine = name, .topology = two_packages_four_gpus()});
    const Topology& topology = view.hosts.back().topology;
    for (int i = 0; i < local; ++i) {
      const CpuSet bound = CpuSet::parse(pus);
      view.processes.push_back({.rank = node * local + i,
                                .node = node,
                                .local_rank = i,
                                .pid = 4000 + i,
                                .pus = bound,
                                .cores = topology.cores_of(bound),
                                .bound = bound != topology.pus,
                                .device = i % 4,
                                .gpu = topology.gpus[static_cast<std::size_t>(i % 4)]});
    }
  }
  return view;
}

std::int64_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(ClusterTable, OneLineAProcessUnderItsHost) {
  ClusterView view = make_cluster(2, 2, "0-15");
  view.warnings = {"node1: beware"};
  const std::string text = format_table(view);
  EXPECT_EQ(text,
            "4 ranks on 2 nodes\n"
            "    rank  local      pid  device or cores\n"
            "node0: 2 × Intel(R) Xeon(R) Platinum 8480C, 8 cores, 16 PUs, 2 NUMA nodes, 1024 GiB; "
            "4 × NVIDIA H100\n"
            "    80GB HBM3\n"
            "       0      0     4000  GPU 0 NVIDIA H100 80GB HBM3 (0000:18:00.0); cores 0-7, not bound\n"
            "       1      1     4001  GPU 1 NVIDIA H100 80GB HBM3 (0000:2a:00.0); cores 0-7, not bound\n"
            "node1: 2 × Intel(R) Xeon(R) Platinum 8480C, 8 cores, 16 PUs, 2 NUMA nodes, 1024 GiB; "
            "4 × NVIDIA H100\n"
            "    80GB HBM3\n"
            "       2      0     4000  GPU 0 NVIDIA H100 80GB HBM3 (0000:18:00.0); cores 0-7, not bound\n"
            "       3      1     4001  GPU 1 NVIDIA H100 80GB HBM3 (0000:2a:00.0); cores 0-7, not bound\n"
            "warning: node1: beware\n");
}

TEST(ClusterTable, FitsItsColumns) {
  ClusterView view = make_cluster(1, 2, "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30");
  view.warnings = {
      "node0: ranks 0 and 1 are bound to the same processors, and so wait for each other; start with "
      "mpirun --map-by numa --bind-to core, or leave the binding to lockstep"};
  for (const std::size_t columns : {80, 100}) {
    std::istringstream text(format_table(view, columns));
    for (std::string line; std::getline(text, line);) EXPECT_LE(columns_of(line), columns) << line;
  }
}

TEST(ClusterTable, WithoutAGpuTheCoresAreNamed) {
  ClusterView view = make_cluster(1, 1, "3,11");
  view.processes[0].device.reset();
  EXPECT_NE(format_table(view).find("     4000  core 3\n"), std::string::npos) << format_table(view);
}

TEST(ClusterTable, ManyProcessesTakeTwoLinesAHost) {
  const std::string text = format_table(make_cluster(64, 8, "0-15"), 200);
  EXPECT_EQ(lines(text), 1 + 64 * 2);
  EXPECT_NE(text.find("  8 ranks, 504-511: GPUs 0-3; cores 0-7, not bound\n"), std::string::npos) << text;
}

TEST(ClusterJson, HoldsTheSame) {
  const auto json = nlohmann::json::parse(to_json(make_cluster(2, 2, "0-3")));
  EXPECT_EQ(json.at("ranks"), 4);
  EXPECT_EQ(json.at("nodes"), 2);
  const auto& host = json.at("hosts").at(1);
  EXPECT_EQ(host.at("name"), "node1");
  EXPECT_EQ(host.at("cores").size(), 8U);
  EXPECT_EQ(host.at("gpus").size(), 4U);
  const auto& process = host.at("processes").at(1);
  EXPECT_EQ(process.at("rank"), 3);
  EXPECT_EQ(process.at("local_rank"), 1);
  EXPECT_EQ(process.at("pus"), "0-3");
  EXPECT_EQ(process.at("bound"), true);
  EXPECT_EQ(process.at("gpu").at("device"), 1);
  EXPECT_EQ(process.at("gpu").at("pci_bus_id"), "0000:2a:00.0");
}

TEST(BindingWarnings, EachMachineIsJudgedByItself) {
  EXPECT_TRUE(binding_warnings(make_cluster(2, 1, "0")).empty());
  const auto warnings = binding_warnings(make_cluster(2, 2, "0"));
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[1].substr(0, 20), "node1: ranks 2 and 3");
}

TEST(BindingWarnings, HostsThatAreOneMachineAreJudgedTogether) {
  // In two containers of one machine, each launcher binds its first rank to core 0.
  ClusterView view = make_cluster(2, 1, "0");
  view.hosts[1].machine = view.hosts[0].machine;
  ASSERT_EQ(binding_warnings(view).size(), 1U);
}

}  // namespace
}  // namespace lockstep
