// SPDX-License-Identifier: Apache-2.0
// A forbidden action of a kernel ends the process, with a message that names the block, the thread and the source line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "emulated_gpu/device/violation.hpp"
#include "emulated_gpu/kernel/device_array.hpp"
#include "emulated_gpu/kernel/features.hpp"
#include "emulated_gpu/kernel/wrong.hpp"

namespace emulated_gpu {
namespace {

/// Returns "wrong\.cu:12" for the line that ends with `// wrong: <what>`.
std::string line_of(const std::string& what) {
  std::ifstream source(LOCKSTEP_WRONG_KERNELS);
  std::string line;
  for (int number = 1; std::getline(source, line); ++number)
    if (line.ends_with("// wrong: " + what)) return R"(wrong\.cu:)" + std::to_string(number);
  return "no line of wrong.cu says: " + what;
}

const std::string thread = R"(, block \(0, 0, 0\), thread \([0-9]+, 0, 0\), at )";

struct Wrong {
  std::string what;
  std::string message;  // a regular expression
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.what; }

std::string at(const std::string& what, const std::string& message) { return thread + line_of(what) + ": " + message; }

/// Returns the message for two unordered accesses to shared memory; which of the two threads comes first is random.
std::string either(const std::string& what, const std::string& one, const std::string& other, const std::string& verb,
                   const std::string& others_verb) {
  const auto text = [&](const std::string& second, const std::string& its_verb, const std::string& first,
                        const std::string& verb_of_first) {
    return at(what + ", " + second,
              its_verb + R"( 4 bytes at byte [0-9]+ of shared memory, which thread \([0-9]+, 0, 0\) )" + verb_of_first +
                  " at " + line_of(what + ", " + first) + " without a barrier between");
  };
  return "(" + text(one, verb, other, others_verb) + "|" + text(other, others_verb, one, verb) + ")";
}

const std::string bytes_of_64_floats = R"( of allocation [0-9]+ \(device memory of GPU 0, 256 bytes\))";

std::vector<Wrong> all_wrong() {
  const std::string shared = "bytes at byte [0-9]+ of shared memory, which ";
  return {
      {"behind the end", at("behind the end", "reads 4 bytes at 0 bytes behind the end" + bytes_of_64_floats)},
      {"before the beginning", at("before the beginning", "writes 4 bytes at ")},
      {"misaligned", at("misaligned", "writes 4 bytes at an address that is no multiple of that")},
      {"misaligned vector", at("misaligned vector", "reads 16 bytes at an address that is no multiple of that")},
      {"copies too much", at("copies too much", "reads 132 bytes at byte 128" + bytes_of_64_floats)},
      {"null", at("null", "reads 4 bytes at a null pointer")},
      {"variable of the host", at("variable of the host", "writes 4 bytes at a variable of the host's")},
      {"atomic behind the end", at("atomic behind the end", "changes 4 bytes at [0-9]+ bytes behind the end")},
      {"cached read behind the end", at("cached read behind the end", "reads 4 bytes at 0 bytes behind the end")},
      {"lacks a barrier", either("lacks a barrier", "write", "read", "writes", "reads")},
      {"writes together", at("writes together", "writes 4 " + shared + R"(thread \([0-9]+, 0, 0\) writes at )" +
                                                    line_of("writes together"))},
      {"writes what was read", either("writes what was read", "read", "write", "reads", "writes")},
      {"word of bytes", "(" + at("word of bytes, write", "writes 1 " + shared + R"(thread \([0-9]+, 0, 0\) reads)") +
                            "|" + at("word of bytes, read", "reads 4 " + shared + R"(thread \([0-9]+, 0, 0\) writes)") +
                            ")"},
      {"shuffle is no barrier", at("shuffle is no barrier", "reads 4 " + shared + R"(thread \([0-9]+, 0, 0\) writes)")},
      {"another warp", either("another warp", "write", "read", "writes", "reads")},
      {"mixes atomics", either("mixes atomics", "one", "other", "changes", "reads")},
      {"behind a shared variable", at("behind a shared variable", "reads 4 " + shared + "is in no variable")},
      {"two places",
       "(" +
           at("two places, one",
              "waits in __syncthreads for thread .* which waits in __syncthreads at " + line_of("two places, other")) +
           "|" +
           at("two places, other",
              "waits in __syncthreads for thread .* which waits in __syncthreads at " + line_of("two places, one")) +
           ")"},
      {"barrier without one",
       at("barrier without one", R"(waits in __syncthreads for thread \(40, 0, 0\), which has ended)")},
      {"not in the mask", at("not in the mask", "__ballot_sync with a mask without the lane that calls it")},
      {"ended lane",
       at("ended lane", R"(waits in __any_sync with mask 0xffffffff for thread \(9, 0, 0\), which has ended)")},
      {"function",
       at("function, one", "waits in __syncwarp with mask 0xffffffff for thread .* which waits in __shfl_sync ")},
      {"two masks", at("two masks", "waits in __all_sync with mask 0x[0-9a-f]+ for thread ")},
      {"no part", at("no part", "__shfl_down_sync from lane [0-9]+, which takes no part in it")},
      {"block or warp", at("block or warp, warp",
                           "waits in __shfl_sync with mask 0xffffffff for thread "
                           R"(\(32, 0, 0\), which waits in __syncthreads at )")},
      {"too much shared memory", at("too much shared memory", "needs more than 48 KiB of shared memory")},
      {"trap", at("trap", "__trap")},
  };
}

void launch_wrong(const std::string& what) {
  const DeviceArray<float> memory(std::vector<float>(64, 0.0F));
  float* data = memory.data();
  if (what == "two places") {
    const float some = 20;
    expect_no_error(cudaMemcpy(data + 17, &some, sizeof some, cudaMemcpyHostToDevice));
  }
  const auto* const end = wrong::kernels + wrong::kernels_count;
  const auto* kernel = std::find_if(wrong::kernels, end, [&](const auto& one) { return one.what == what; });
  ASSERT_NE(kernel, end);
  kernel->launch(data, nullptr);
  expect_no_error(cudaDeviceSynchronize());
}

class Checks : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

class WrongKernels : public testing::TestWithParam<Wrong> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(WrongKernels, EndWithTheirLine) {
  EXPECT_EXIT((launch_wrong(GetParam().what), std::exit(0)), testing::ExitedWithCode(violation_status),
              "emulated GPU: kernel [a-z_]+" + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Each, WrongKernels, testing::ValuesIn(all_wrong()),
                         [](const testing::TestParamInfo<Wrong>& kernel) {
                           std::string name = kernel.param.what;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == ' '; }, '_');
                           return name;
                         });

using WrongMemory = Checks;

TEST_F(WrongMemory, OfTheHostEndsAKernel) {
  EXPECT_EXIT(
      {
        std::vector<unsigned> memory(64);
        features::number_threads(memory.data(), dim3(1), dim3(64), nullptr);
        cudaDeviceSynchronize();
        std::exit(0);
      },
      testing::ExitedWithCode(violation_status),
      R"(kernel number, block \(0, 0, 0\), .*at features\.cu:[0-9]+: writes 4 bytes at an address of the host's)");
}

TEST_F(WrongMemory, ThatWasFreedEndsAKernel) {
  EXPECT_EXIT(
      {
        unsigned* memory = nullptr;
        cudaMalloc(reinterpret_cast<void**>(&memory), 256);
        cudaFree(memory);
        features::number_threads(memory, dim3(1), dim3(64), nullptr);
        cudaDeviceSynchronize();
        std::exit(0);
      },
      testing::ExitedWithCode(violation_status), "at features.cu:[0-9]+: writes 4 bytes at byte [0-9]+ of .*, freed");
}

TEST_F(WrongMemory, OfAnotherGpuEndsAKernelUnlessItIsAPeers) {
  const auto use_memory_of_gpu_1 = [](bool peers) {
    unsigned* memory = nullptr;
    cudaSetDevice(1);
    cudaMalloc(reinterpret_cast<void**>(&memory), 256);
    cudaSetDevice(0);
    if (peers) cudaDeviceEnablePeerAccess(1, 0);
    features::number_threads(memory, dim3(1), dim3(64), nullptr);
    cudaDeviceSynchronize();
    std::exit(0);
  };
  EXPECT_EXIT(use_memory_of_gpu_1(false), testing::ExitedWithCode(violation_status), "without peer access from GPU 0");
  EXPECT_EXIT(use_memory_of_gpu_1(true), testing::ExitedWithCode(0), "");
}

TEST_F(WrongMemory, IsNeitherPinnedNorManagedNorRegistered) {
  unsigned* pinned = nullptr;
  unsigned* managed = nullptr;
  std::vector<unsigned> registered(64);
  expect_no_error(cudaMallocHost(reinterpret_cast<void**>(&pinned), 256));
  expect_no_error(cudaMallocManaged(reinterpret_cast<void**>(&managed), 256, cudaMemAttachGlobal));
  expect_no_error(cudaHostRegister(registered.data(), 256, cudaHostRegisterDefault));
  for (unsigned* memory : {pinned, managed, registered.data()}) {
    features::number_threads(memory, dim3(1), dim3(64), nullptr);
    expect_no_error(cudaGetLastError());
    expect_no_error(cudaDeviceSynchronize());
    EXPECT_EQ(memory[63], 63U);
  }
  expect_no_error(cudaHostUnregister(registered.data()));
  expect_no_error(cudaFreeHost(pinned));
  expect_no_error(cudaFree(managed));
}

}  // namespace
}  // namespace emulated_gpu
