// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include "lockstep/base/error.hpp"
#include "platform/machines.hpp"

namespace lockstep {
namespace {

using testing_machines::read_data;
using testing_machines::two_packages_four_gpus;

TEST(Topology, ReadsPackagesNodesCoresAndCaches) {
  const Topology machine = two_packages_four_gpus();
  EXPECT_EQ(machine.pus.text(), "0-15");
  EXPECT_EQ(machine.bound_pus, machine.pus);
  ASSERT_EQ(machine.packages.size(), 2U);
  EXPECT_EQ(machine.packages[1].model, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(machine.packages[1].pus.text(), "4-7,12-15");
  ASSERT_EQ(machine.numa_nodes.size(), 2U);
  EXPECT_EQ(machine.numa_nodes[1].number, 1);
  EXPECT_EQ(machine.numa_nodes[1].memory, Bytes{549755813888});
  ASSERT_EQ(machine.cores.size(), 8U);
  EXPECT_EQ(machine.cores[5].text(), "5,13");
  ASSERT_EQ(machine.caches.size(), 18U);
  EXPECT_EQ(machine.caches.front().level, 1);
  EXPECT_EQ(machine.caches.front().size, Bytes{32768});
  EXPECT_EQ(machine.caches.back().level, 3);
  EXPECT_EQ(machine.caches.back().pus.text(), "4-7,12-15");
}

TEST(Topology, FindsTheCoresOfProcessingUnits) {
  const Topology machine = two_packages_four_gpus();
  EXPECT_EQ(machine.cores_of(CpuSet::parse("1,9")).text(), "1");
  EXPECT_EQ(machine.cores_of(CpuSet::parse("4,13")).text(), "4-5");
  EXPECT_EQ(machine.cores_of(CpuSet()).text(), "");
}

TEST(Topology, FindsTheLargestCacheThatProcessingUnitsShare) {
  const std::vector<Cache> caches = two_packages_four_gpus().caches;
  EXPECT_EQ(last_level_cache(caches, CpuSet::parse("5")).text(), "4-7,12-15");
  EXPECT_EQ(last_level_cache(caches, CpuSet::parse("0-3")).text(), "0-3,8-11");
  EXPECT_EQ(last_level_cache(caches, CpuSet::parse("3-4")).text(), "");
  EXPECT_EQ(last_level_cache({}, CpuSet::parse("0")).text(), "");
}

TEST(Topology, DiscoversTheSameCachesAlone) {
  const std::vector<Cache> all = discover_topology().caches;
  const std::vector<Cache> alone = discover_caches();
  ASSERT_EQ(alone.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(alone[i].pus, all[i].pus);
}

TEST(Topology, ReadsGpusFromCudaAndNvml) {
  const auto gpus = two_packages_four_gpus().gpus;
  ASSERT_EQ(gpus.size(), 4U);
  EXPECT_EQ(gpus[2].name, "cuda2");
  EXPECT_EQ(gpus[2].vendor, "NVIDIA Corporation");
  EXPECT_EQ(gpus[2].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpus[2].uuid, "GPU-00000000-0000-0000-0000-000000000002");
  EXPECT_EQ(gpus[2].pci_bus_id, "0000:98:00.0");
  EXPECT_EQ(gpus[2].near_pus.text(), "4-7,12-15");
}

TEST(Topology, ReadsGpusFromPciAloneAndPassesTheConsoleOver) {
  const auto gpus = topology_from_xml(read_data("two_packages_four_gpus_pci.xml")).gpus;
  ASSERT_EQ(gpus.size(), 4U);
  EXPECT_EQ(gpus[1].name, "");
  EXPECT_EQ(gpus[1].model, "GH100 [H100 SXM5 80GB]");
  EXPECT_EQ(gpus[1].pci_bus_id, "0000:2a:00.0");
  EXPECT_EQ(gpus[1].near_pus.text(), "0-3,8-11");
}

TEST(Topology, RefusesWhatIsNoXml) {
  EXPECT_THROW(topology_from_xml("<topology"), Error);
  EXPECT_THROW(topology_from_xml(""), Error);
}

TEST(Topology, CudaVisibleDevicesSelectsAndOrders) {
  const auto all = two_packages_four_gpus().gpus;
  const auto names = [&all](const std::optional<std::string>& setting) {
    std::string text;
    for (const Gpu& gpu : visible_gpus(all, setting)) text += gpu.name.back();
    return text;
  };
  EXPECT_EQ(names(std::nullopt), "0123");
  EXPECT_EQ(names(""), "");
  EXPECT_EQ(names("3,1"), "31");
  EXPECT_EQ(names("GPU-00000000-0000-0000-0000-000000000002,0"), "20");
  EXPECT_EQ(names("1,GPU-0000,2"), "1") << "which are all of them";
  EXPECT_EQ(names("1,7,2"), "1");
  EXPECT_EQ(names("-1,2"), "");
}

TEST(Topology, DiscoversThisMachine) {
  const Topology machine = discover_topology();
  EXPECT_GE(machine.pus.size(), 1);
  EXPECT_GE(machine.cores.size(), 1U);
  EXPECT_LE(machine.cores.size(), static_cast<std::size_t>(machine.pus.size()));
  EXPECT_TRUE(machine.pus.includes(machine.bound_pus));
  EXPECT_FALSE(machine.bound_pus.empty());
}

TEST(Topology, KeepsTheBindingItInherited) {
  const int last = discover_topology().bound_pus.numbers().back();
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(discover_topology().bound_pus.text(), std::to_string(last));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace lockstep
