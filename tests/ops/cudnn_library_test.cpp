// SPDX-License-Identifier: Apache-2.0
// Tests how cuDNN is found, checked and called, with fake libraries. It needs no GPU.
#include "ops/cuda/convolution/cudnn_library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {
namespace {

const std::string complete = LOCKSTEP_FAKE_CUDNN;
const std::string without_functions = LOCKSTEP_POOR_CUDNN;  // has only cudnnGetVersion

void pretend(const char* version) { setenv("FAKE_CUDNN_VERSION", version, 1); }

void expect_has(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

std::string message_of(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
std::string refusal_of(const std::string& file) {
  return message_of(ErrorCode::unsupported, [&] { load_cudnn(file); });
}

TEST(CudnnLibrary, OtherVersionsAreRefusedWithTheRemedy) {
  pretend("90701");
  expect_has(refusal_of(complete), {"cuDNN 9.7.1 (", complete.c_str(), "too old", "9.8.0 or newer"});
  pretend("100002");
  expect_has(refusal_of(complete), {"cuDNN 10.0.2 (", "built with the header of cuDNN 9."});
  pretend("91900");
  EXPECT_EQ(load_cudnn(complete).version, "9.19.0");
}

TEST(CudnnLibrary, MissingFunctionsAreNamed) {
  pretend("91900");
  expect_has(refusal_of(without_functions), {"lacks cudnnBackendCreateDescriptor, ", "cudnnSetStream, which"});
}

/// What the fake tells of itself.
template <typename Result>
Result ask(const char* function) {
  void* const library = dlopen(complete.c_str(), RTLD_NOW);
  return reinterpret_cast<Result (*)()>(dlsym(library, function))();
}

void* address(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

// The library of a process stays loaded, so all that is called from it is tested in one.
TEST(CudnnLibrary, APlanRunsOnItsStreamWithTheGivenTensors) {
  pretend("91900");
  setenv("LOCKSTEP_CUDNN_LIBRARY", complete.c_str(), 1);
  setenv("FAKE_CUDNN_NO_GPU", "1", 1);
  expect_has(message_of(ErrorCode::unsupported, [] { make_convolutions({}); }),
             {"cuDNN 9.19.0 (", "cannot use this GPU: a failure: of the fake", "driver"});
  unsetenv("FAKE_CUDNN_NO_GPU");
  {
    std::atomic<int> selections{0};
    const auto cudnn = make_convolutions([&] { ++selections; });
    EXPECT_EQ(cudnn->version(), "cuDNN 9.19.0");
    const Convolution layer{.out_channels = 8, .kernel = 3, .padding = 1};
    const ConvolutionRequest request = requests_of(layer, {2, 8, 6, 6}, DType::bfloat16, false).forward;
    EXPECT_EQ(cudnn->candidates(request), (std::vector<std::string>{"fused,eng7,k2=5", "fused,eng8,k2=5", "eng7,k2=5",
                                                                    "eng8,k2=5", "fused,eng9,k2=5", "eng9,k2=5"}))
        << "heuristic B is asked where A names enough";
    EXPECT_EQ(cudnn->candidates(requests_of(layer, {2, 8, 6, 6}, DType::bfloat16, false).backward_data),
              (std::vector<std::string>{"eng7,k2=5", "eng8,k2=5", "eng9,k2=5", "eng10,k2=5"}))
        << "three are few";

    const auto fused_plan = cudnn->plan(request, "fused,eng7,k2=5");
    const ConvolutionPlan* const fused = fused_plan->get().plan.get();
    EXPECT_TRUE(fused->applies_epilogue());
    EXPECT_EQ(fused->workspace(), Bytes{4096});
    ConvolutionTensors tensors{
        .x = address(0x10), .w = address(0x20), .y = address(0x30), .bias = address(0x40), .workspace = address(0x50)};
    fused->run(tensors, Queue::stream(address(0xa)));
    EXPECT_STREQ(ask<const char*>("fake_cudnn_executed"),
                 "plan on stream  a, tensors 1 2 3 4 at 10 20 30 40, workspace 50");
    const int made = ask<int>("fake_cudnn_made");
    fused->run(tensors, Queue::stream(address(0xb)));
    EXPECT_EQ(ask<int>("fake_cudnn_made"), made) << "a step with the same tensors makes nothing new";
    tensors.y = address(0x31);
    fused->run(tensors, Queue::stream(address(0xb)));
    EXPECT_STREQ(ask<const char*>("fake_cudnn_executed"),
                 "plan on stream  b, tensors 1 2 3 4 at 10 20 31 40, workspace 50");

    const auto plain_plan = cudnn->plan(request, "eng7,k2=5");
    const ConvolutionPlan* const plain = plain_plan->get().plan.get();
    EXPECT_FALSE(plain->applies_epilogue());
    EXPECT_EQ(ask<int>("fake_cudnn_handles"), 1) << "only the handle that runs plans is kept";
    plain->run(tensors, Queue::stream(address(0xa)));
    EXPECT_STREQ(ask<const char*>("fake_cudnn_executed"), "plan on stream  a, tensors 1 2 3 at 10 20 31, workspace 50");
    EXPECT_EQ(selections, 2) << "each thread that makes a plan selects the GPU, also one that takes another's handle";
    EXPECT_EQ(cudnn->plan(request, "eng7,k2=5"), plain_plan) << "a layer alike has the same plan";
    setenv("FAKE_CUDNN_FAILS", "1", 1);
    expect_has(message_of(ErrorCode::device, [&] { plain->run(tensors, Queue::stream(address(0xa))); }),
               {"cuDNN 9.19.0 fails to submit a convolution: a failure"});
  }
  EXPECT_EQ(ask<int>("fake_cudnn_alive"), 0);
}

}  // namespace
}  // namespace lockstep::ops::cuda
