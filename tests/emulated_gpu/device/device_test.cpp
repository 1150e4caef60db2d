// SPDX-License-Identifier: Apache-2.0
// Tests the violations that the emulation detects. A real GPU might run such a program for years, but the emulation
// ends it with a message. They also test that a seed repeats a run.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "emulated_gpu/device/faults.hpp"
#include "emulated_gpu/device/machine.hpp"
#include "emulated_gpu/device/random.hpp"
#include "emulated_gpu/device/violation.hpp"

namespace emulated_gpu {
namespace {

constexpr std::size_t count = 1024;
constexpr std::size_t bytes = count * sizeof(float);

void expect_success(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code); }

struct Memories {
  Memories() {
    expect_success(cudaMalloc(reinterpret_cast<void**>(&device), bytes));
    expect_success(cudaMallocHost(reinterpret_cast<void**>(&pinned), 2 * bytes));
    expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_success(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    expect_success(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  float* device = nullptr;
  float* pinned = nullptr;
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
};

/// Each test is a process, because most tests end theirs. The parameter is the order.
class Order : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("EMULATED_GPU_ORDER", GetParam(), 1);
  }
};

using Violations = Order;

TEST_P(Violations, TheHostReadsDeviceMemory) {
  EXPECT_EXIT(
      {
        const Memories m;
        std::exit(m.device[3] > 0 ? 1 : 2);
      },
      testing::ExitedWithCode(violation_status), "the host reads byte 12 of allocation 1 \\(device memory of GPU 0");
}

TEST_P(Violations, TheHostWritesDeviceMemory) {
  EXPECT_EXIT(
      {
        const Memories m;
        m.device[0] = 1;
        std::exit(1);
      },
      testing::ExitedWithCode(violation_status), "the host writes byte 0 of allocation 1");
}

TEST_P(Violations, TheHostReadsPinnedMemoryBeforeItHasWaitedForTheCopy) {
  EXPECT_EXIT(
      {
        const Memories m;
        expect_success(cudaMemcpyAsync(m.pinned, m.device, bytes, cudaMemcpyDefault, m.stream));
        expect_success(cudaEventRecord(m.event, m.other));  // it was recorded in another stream
        expect_success(cudaEventSynchronize(m.event));
        std::exit(m.pinned[0] > 0 ? 1 : 2);
      },
      testing::ExitedWithCode(violation_status), "pinned memory too early: a copy into byte 0 of allocation 2");
}

TEST_P(Violations, ACopyUsesWhatWasFreed) {
  EXPECT_EXIT(
      {
        const Memories m;
        expect_success(cudaFree(m.device));
        static_cast<void>(cudaMemcpyAsync(m.pinned, m.device, bytes, cudaMemcpyDefault, m.stream));
        static_cast<void>(cudaStreamSynchronize(m.stream));
        std::exit(1);
      },
      testing::ExitedWithCode(violation_status), "a copy of 4096 bytes uses .* allocation 1 .*freed");
}

TEST_P(Violations, ACopyGoesBeyondTheEnd) {
  EXPECT_EXIT(
      {
        const Memories m;
        static_cast<void>(cudaMemsetAsync(m.device, 0, bytes + 1, m.stream));
        static_cast<void>(cudaStreamSynchronize(m.stream));
        std::exit(1);
      },
      testing::ExitedWithCode(violation_status), "a fill of 4097 bytes uses");
}

INSTANTIATE_TEST_SUITE_P(Each, Violations, testing::Values("early", "late", "mixed"));

using Memory = Order;

TEST_P(Memory, FreshMemoryIsNoNumber) {
  EXPECT_EXIT(
      {
        const Memories m;
        std::vector<float> host(count);
        expect_success(cudaMemcpyAsync(host.data(), m.device, bytes, cudaMemcpyDefault, m.stream));
        expect_success(cudaStreamSynchronize(m.stream));
        std::size_t numbers = 0;
        for (const float value : host) numbers += std::isnan(value) ? 0U : 1U;
        std::exit(std::isnan(m.pinned[0]) && numbers == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_P(Memory, OfAPageThatACopyIsToWriteTheOtherBytesStayOpen) {
  EXPECT_EXIT(
      {
        const Memories m;
        expect_success(cudaMemsetAsync(m.device, 0, bytes, m.stream));
        expect_success(cudaMemcpyAsync(m.pinned, m.device, 64, cudaMemcpyDefault, m.stream));
        m.pinned[16] = 5;                                           // one instruction, with one address there
        std::memmove(m.pinned + 20, m.pinned + 16, sizeof(float));  // and with two
        const float beside = m.pinned[20];
        expect_success(cudaStreamSynchronize(m.stream));
        std::exit(beside == 5 && m.pinned[0] == 0 && m.pinned[15] == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Each, Memory, testing::Values("early", "late", "mixed"));

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Runs copies on two streams, some of them ordered. @return the trace that the GPU writes
std::string trace_of_seed(int seed) {
  const std::filesystem::path path = "trace-of-a-seed";  // the same for the process that the test starts
  setenv("EMULATED_GPU_SEED", std::to_string(seed).c_str(), 1);
  setenv("EMULATED_GPU_TRACE", path.c_str(), 1);
  setenv("EMULATED_GPU_LULL_MS", "60000", 1);  // so that no progress depends on the clock
  EXPECT_EXIT(
      {
        const Memories m;
        for (int i = 0; i < 20; ++i) {
          expect_success(cudaMemsetAsync(m.device, i, bytes / 2, m.stream));
          expect_success(cudaMemsetAsync(m.device + count / 2, i, bytes / 2, m.other));
          if (i % 3 == 0) expect_success(cudaEventRecord(m.event, m.stream));
          if (i % 3 == 1) expect_success(cudaStreamWaitEvent(m.other, m.event, 0));
        }
        expect_success(cudaDeviceSynchronize());
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  const std::string trace = text_of(path);
  std::filesystem::remove(path);
  return trace;
}

TEST(Seeds, RepeatARunAndDiffer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("EMULATED_GPU_ORDER", "mixed", 1);
  std::set<std::string> traces;
  for (int seed = 0; seed < 4; ++seed) {
    const std::string trace = trace_of_seed(seed);
    EXPECT_GE(trace.size(), 40 * std::string("1 a fill of 2048 bytes\n").size()) << trace;
    EXPECT_EQ(trace, trace_of_seed(seed));
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), 4U);
}

TEST(Calls, AreRecordedInTheirOrder) {
  record_call("cudaMalloc");
  record_calls();
  record_call("cudaFree");
  record_call("ncclSend");
  EXPECT_EQ(recorded_calls(), (std::vector<std::string>{"cudaFree", "ncclSend"}));
  record_call("cudaFree");
  EXPECT_EQ(recorded_calls(), std::vector<std::string>());
}

TEST(Faults, AreOfTheCallTheyName) {
  set_faults("cudaMemset:2:cudaErrorUnknown,ncclSend:2+:ncclSystemError");
  EXPECT_FALSE(injected_fault("cudaMemset"));
  EXPECT_FALSE(injected_fault("cudaMalloc"));
  EXPECT_EQ(injected_fault("cudaMemset"), "cudaErrorUnknown");
  EXPECT_FALSE(injected_fault("cudaMemset"));
  EXPECT_FALSE(injected_fault("ncclSend"));
  EXPECT_EQ(injected_fault("ncclSend"), "ncclSystemError");
  EXPECT_EQ(injected_fault("ncclSend"), "ncclSystemError");
  set_faults("");
}

/// Three GPUs; the last one has two instances.
constexpr const char* three_gpus = R"({"gpus": [
  {"name": "A", "uuid": "GPU-0a000000-0000-0000-0000-000000000000", "pci": "0000:1b:00.0", "memory_mib": 64},
  {"name": "A", "uuid": "GPU-0b000000-0000-0000-0000-000000000000", "pci": "0000:1c:00.0", "memory_mib": 64},
  {"name": "A", "uuid": "GPU-1c000000-0000-0000-0000-000000000000", "pci": "0000:1d:00.0", "memory_mib": 64,
   "mig": ["MIG-11111111-0000-0000-0000-000000000000", "MIG-22222222-0000-0000-0000-000000000000"]}]})";

std::string seen(const char* visible) {
  std::string text;
  for (const Device& device : parse_machine(three_gpus, visible).devices) text += device.uuid.substr(0, 6) + " ";
  return text;
}

TEST(VisibleDevices, AreThoseOfTheListUpToTheFirstThatIsNone) {
  EXPECT_EQ(seen("0,1"), "GPU-0a GPU-0b ");
  EXPECT_EQ(seen("1,0"), "GPU-0b GPU-0a ");
  EXPECT_EQ(seen("1,7,0"), "GPU-0b ");
  EXPECT_EQ(seen(""), "");
  EXPECT_EQ(seen("-1"), "");
  EXPECT_EQ(seen("1,1"), "") << "twice the same is an error";
  EXPECT_EQ(seen("GPU-0b"), "GPU-0b ");
  EXPECT_EQ(seen("GPU-0"), "") << "a prefix of two";
}

TEST(VisibleDevices, AreOneInstanceAtMost) {
  EXPECT_EQ(seen(nullptr), "MIG-11 ");
  EXPECT_EQ(seen("MIG-22222222-0000-0000-0000-000000000000"), "MIG-22 ");
  EXPECT_EQ(seen("2"), "MIG-11 ");
}

TEST(VisibleDevices, ShareTheMemoryOfTheirGpu) {
  const Machine machine = parse_machine(three_gpus, "2");
  ASSERT_EQ(machine.devices.size(), 1U);
  EXPECT_EQ(machine.devices.front().memory, std::size_t{32} << 20);
}

}  // namespace
}  // namespace emulated_gpu
