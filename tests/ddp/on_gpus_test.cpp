// SPDX-License-Identifier: Apache-2.0
#include "ddp/on_gpus.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/back_end.hpp"
#include "ddp/members.hpp"
#include "ddp/model.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"

namespace lockstep::ddp {
namespace {

using backends::NcclAlgorithm;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(NcclAlgorithmOfAGroup, IsNcclsOwnChoiceUnlessOneIsForced) {
  const auto algorithm = [](const char* method) { return nccl_algorithm(backends::parse_method(method)); };
  EXPECT_EQ(algorithm(GroupOptions{}.algorithm.c_str()), NcclAlgorithm::automatic);
  EXPECT_EQ(algorithm("auto"), NcclAlgorithm::automatic);
  EXPECT_EQ(algorithm("ring"), NcclAlgorithm::ring);
  EXPECT_EQ(algorithm("tree"), NcclAlgorithm::tree);
  EXPECT_EQ(algorithm("tree-order"), NcclAlgorithm::tree_order);
}

TEST(NcclAlgorithmOfAGroup, RefusesByNameWhatHasNoMeaningThere) {
  int refused = 0;
  for (const std::string_view method : backends::method_names()) {
    if (method == "auto" || method == "ring" || method == "tree" || method == "tree-order") continue;
    const std::string why = refusal([&] { (void)nccl_algorithm(backends::parse_method(method)); });
    EXPECT_NE(why.find("the algorithm " + std::string(method) + " has no meaning on cuda"), std::string::npos) << why;
    ++refused;
  }
  EXPECT_GE(refused, 8);
  EXPECT_NE(refusal([] { refuse_on_gpus({.compress = backends::WireFormat::bfloat16}); }).find("compression bf16"),
            std::string::npos);
  EXPECT_NE(refusal([] { refuse_on_gpus({.checksum = true}); }).find("leave it out on cuda"), std::string::npos);
}

std::vector<Gpu> gpus(const std::vector<std::string>& uuids) {
  std::vector<Gpu> all;
  for (const std::string& uuid : uuids) all.push_back({.uuid = uuid, .pci_bus_id = uuid});
  return all;
}

TEST(GpuOfARank, IsChosenOnItsNodeAmongThoseThatItSees) {
  const ClusterShape shape{{0, 1, 0, 1, 0}};
  const CpuSet low = CpuSet::parse("0-3");
  const CpuSet high = CpuSet::parse("4-7");
  auto both = gpus({"a", "b", "c"});
  both[0].near_pus = both[1].near_pus = low;
  both[2].near_pus = high;
  EXPECT_EQ(
      gpus_of({{both, high}, {gpus({"x"}), low}, {both, low}, {gpus({"z", "y"}), low}, {both, low | high}}, shape),
      (std::vector<int>{2, 0, 0, 0, 1}));
}

TEST(GpuOfARank, IsThereForEachRankOfAHost) {
  const ClusterShape shape{{0, 1, 1, 1}};
  const std::vector<std::string> hosts = {"a", "b", "b", "b"};
  const auto error_of = [&](int rank, const std::vector<std::string>& of_the_last) {
    const std::vector<GpuChoices> ranks = {
        {gpus({"1"}), {}}, {gpus({"2", "3"}), {}}, {gpus({"2", "3"}), {}}, {gpus(of_the_last), {}}};
    return crowded_host({rank}, ranks, shape, hosts);
  };
  for (const int rank : {1, 2, 3}) {
    const auto error = error_of(rank, {"3"});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error->context().host, "b");
    EXPECT_EQ(error->message().find("host b has 3 ranks, which see 2 GPUs: "), 0U) << error->message();
    EXPECT_NE(error->message().find("no more than 2 there"), std::string::npos) << error->message();
  }
  EXPECT_FALSE(error_of(0, {"3"})) << "it has room on its own host";
  EXPECT_FALSE(error_of(1, {"4"}));
}

TEST(GpuOfARank, IsNobodyElses) {
  const std::vector<std::string> hosts = {"a", "a", "b"};
  const auto error_of = [&](int rank, const std::vector<std::string>& uuids) {
    return shared_gpu({rank}, gpus(uuids), hosts, "2.28.9");
  };
  EXPECT_FALSE(error_of(1, {"GPU-1", "GPU-2", "GPU-3"}));
  const auto error = error_of(1, {"GPU-1", "GPU-1", "GPU-3"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error->context().peers, std::vector<int>{0});
  EXPECT_EQ(error->context().host, "a");
  EXPECT_EQ(error->message().find("ranks 0 and 1 have the same GPU, GPU-1. "), 0U) << error->message();
  EXPECT_FALSE(error_of(2, {"GPU-1", "GPU-1", "GPU-3"}));
  EXPECT_TRUE(error_of(2, {"GPU-1", "GPU-2", "GPU-1"})) << "though the host goes by another name";
}

/// Some tests have several ranks on a machine with one GPU.
TEST(GpuOfARank, IsSharedWhereATestAllowsIt) {
  const ClusterShape shape{{0, 0}};
  const std::vector<GpuChoices> ranks(2, GpuChoices{gpus({"GPU-1"}), {}});
  const auto is_refused = [&] {
    return std::pair(crowded_host({1}, ranks, shape, {"a", "a"}).has_value(),
                     shared_gpu({1}, gpus({"GPU-1", "GPU-1"}), {"a", "a"}, "2.28.9").has_value());
  };
  EXPECT_EQ(is_refused(), std::pair(true, true));
  setenv("LOCKSTEP_TEST_SHARED_GPU", "1", 1);
  EXPECT_EQ(is_refused(), std::pair(false, false));
  EXPECT_EQ(gpus_of(ranks, shape), (std::vector<int>{0, 0}));
  unsetenv("LOCKSTEP_TEST_SHARED_GPU");
}

TEST(GpuOfARank, IsAnInstanceOfOneThatNobodyElseHas) {
  auto instances = gpus({"MIG-1", "MIG-2", "MIG-3"});
  for (Gpu& gpu : instances) gpu.pci_bus_id = "0000:1b:00.0";
  const std::vector<std::string> hosts = {"a", "a", "b"};
  for (const char* version : {"2.28.9", "2.9.9"}) {
    const auto error = shared_gpu({0}, instances, hosts, version);
    ASSERT_TRUE(error) << version;
    EXPECT_EQ(error->context().peers, std::vector<int>{1});
    for (const std::string part : {"ranks 0 and 1 have instances of one GPU, 0000:1b:00.0", version})
      EXPECT_NE(error->message().find(part), std::string::npos) << error->message();
    EXPECT_FALSE(shared_gpu({2}, instances, hosts, version)) << "on another host";
  }
  for (const char* version : {"2.30.7", "3.0.1"}) EXPECT_FALSE(shared_gpu({0}, instances, hosts, version)) << version;
}

/// The calls that reached the device, as text: "all_reduce of 64 bytes on the stream".
using Calls = std::vector<std::string>;

class Done : public Operation {
 public:
  Done() { complete(); }
  bool order_after(Queue /*queue*/) override { return true; }
};

/// The communicator of a GPU that does not exist. It does nothing, and reading or writing its memory ends the process.
class Untouchable : public BackEnd {
 public:
  Untouchable(Calls& calls, Progress& progress) : BackEnd({0}, 1), calls_(&calls), progress_(&progress) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  Allocation allocate(Bytes bytes) override {
    const auto size = static_cast<std::size_t>(bytes.value);
    void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return {memory, bytes, MemoryKind::device, [size](void* p) { munmap(p, size); }};
  }
  void abort(std::string_view /*why*/) noexcept override {}
  void close() override { calls_->emplace_back("close"); }
  Work submit(const Collective& c) override {
    calls_->push_back(std::string(name(c.kind)) + " of " + std::to_string(c.out.bytes().value) + " bytes on the " +
                      (c.queue.is_host() ? "host" : "stream"));
    return {std::make_shared<Done>(), *progress_};
  }

 private:
  Calls* calls_;
  Progress* progress_;
  Capabilities capabilities_{.backend = "untouchable", .host_memory = false, .device_memory = true};
};

/// One rank, with such a communicator for its GPU.
class OneRank : public Members {
 public:
  explicit OneRank(Calls& calls) : Members(std::move(from_threads(1).front()), {}, 0), calls_(&calls) {}

  std::unique_ptr<Communicator> make_on_device(Progress& progress, Use /*use*/) override {
    return std::make_unique<Communicator>(std::make_unique<Untouchable>(*calls_, progress));
  }

 private:
  Calls* calls_;
};

TEST(DataParallelOnAGpu, LeavesTheMemoryToTheDeviceAndTheOrderToTheStream) {
  using namespace testing_support;
  Calls calls;
  ProcessGroup group = group_of(std::make_unique<OneRank>(calls), {.device = Device::cuda});
  DataParallel model(group, layout(), DType::float32, small_buckets);
  ASSERT_EQ(model.values().kind, MemoryKind::device);
  ASSERT_EQ(model.gradient(1).kind, MemoryKind::device);
  model.synchronize();
  int stream = 0;
  double loss = 3;
  for (int step = 0; step < 2; ++step) {
    for (const int parameter : {1, 2, 0}) {
      model.ready(parameter, Queue::stream(&stream));
      model.progress();
    }
    const DataParallel::Step result = model.finish(4, {&loss, 1});
    EXPECT_EQ(result.weight, 4) << "numbers go by the host";
    EXPECT_TRUE(result.unused.empty());
  }
  EXPECT_EQ(loss, 3);
  group.close();
  const auto bytes = [](Bytes count) { return " of " + std::to_string(count.value) + " bytes on the "; };
  Calls expected = {"broadcast" + bytes(model.values().bytes()) + "host"};
  for (int step = 0; step < 2; ++step)
    for (const Bytes bucket : model.bucket_sizes()) expected.push_back("all_reduce" + bytes(bucket) + "stream");
  EXPECT_EQ(expected.size(), 5U);
  expected.emplace_back("close");
  EXPECT_EQ(calls, expected);
}

TEST(CompressedOnAGpu, IsRefusedBecauseCompressionConvertsInHostMemory) {
  Calls calls;
  Progress progress;
  auto on_device = std::make_unique<Communicator>(std::make_unique<Untouchable>(calls, progress));
  EXPECT_NE(refusal([&] {
              (void)backends::make_compressed(std::move(on_device), backends::WireFormat::bfloat16, progress);
            }).find("in host memory"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::ddp
