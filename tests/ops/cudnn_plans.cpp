// SPDX-License-Identifier: Apache-2.0
// Asks the real cuDNN for plans for GPUs that need not be here: a plan is made from the properties of a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/models.hpp"
#include "ops/cuda/convolution/convolutions.hpp"
#include "ops/rows.hpp"
#include "support/verdict.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The properties of an A100 (sm_80), an H100 (sm_90) or a B200 (sm_100), as far as they differ, in cuDNN's words.
std::string properties_of(int architecture) {
  static const std::map<int, std::string> own{
      {80, R"("deviceName": "NVIDIA A100-SXM4-80GB", "deviceVer": 800, "multiProcessorCount": 108,
              "maxSharedMemoryPerBlockOptin": 166912, "l2CacheSize": 41943040, "smClockRateKHz": 1410000,
              "memClockRateKHz": 1593000, "totalGlobalMem": 85899345920)"},
      {90, R"("deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "multiProcessorCount": 132,
              "maxSharedMemoryPerBlockOptin": 232448, "l2CacheSize": 52428800, "smClockRateKHz": 1980000,
              "memClockRateKHz": 2619000, "totalGlobalMem": 85899345920)"},
      {100, R"("deviceName": "NVIDIA B200", "deviceVer": 1000, "multiProcessorCount": 148,
               "maxSharedMemoryPerBlockOptin": 232448, "l2CacheSize": 132644864, "smClockRateKHz": 1965000,
               "memClockRateKHz": 3996000, "totalGlobalMem": 191126044672)"}};
  return "{" + own.at(architecture) + R"(,
      "cudaDeviceId": 0, "pciDeviceId": 0, "driverVer": 13000, "isTccDriver": 0, "supportCoopLaunch": 1, "warpSize": 32,
      "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
      "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
      "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64]})";
}

/// Returns cuDNN for that architecture; null where cuDNN is missing, with the reason.
std::unique_ptr<Convolutions> cudnn_for(int architecture, std::string& why_not) {
  setenv("LOCKSTEP_CUDNN_LIBRARY", LOCKSTEP_FOUND_CUDNN, 0);
  try {
    return make_convolutions_for(properties_of(architecture));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    why_not = error.message();
    return nullptr;
  }
}

struct Precision {
  DType dtype;
  bool tf32;
};
constexpr Precision precisions[] = {
    {DType::float32, false}, {DType::float32, true}, {DType::bfloat16, false}, {DType::float16, false}};

/// A request and whether it reads a batch as it comes from the data set.
struct Wanted {
  ConvolutionRequest request;
  bool is_stem = false;
};

void want(std::map<std::string, Wanted>& all, const ConvolutionRequest& request, bool is_stem) {
  Wanted& wanted = all[text(request)];
  wanted.request = request;
  wanted.is_stem |= is_stem;
}

/// Adds what an operator asks of cuDNN, if it is a convolution of some kind.
void want(std::map<std::string, Wanted>& all, const Operator& op, const Shape& input, bool is_stem,
          const Precision& precision) {
  const auto add = [&](const auto& product) {
    const ConvolutionRequests requests = requests_of(product, input, precision.dtype, precision.tf32);
    want(all, requests.forward, is_stem);
    want(all, requests.backward_weights, is_stem);
    if (!is_stem) want(all, requests.backward_data, false);
  };
  if (const auto* convolution = std::get_if<Convolution>(&op)) add(*convolution);
  if (const auto* transposed = std::get_if<TransposedConvolution>(&op)) add(*transposed);
  if (const auto* linear = std::get_if<Linear>(&op)) add(*linear);
}

/// Adds what training the model asks of cuDNN.
void want(std::map<std::string, Wanted>& all, const nn::Graph& graph, std::int64_t batch, const Precision& precision) {
  for (const nn::Node& node : graph.nodes()) {
    Shape input = graph.shape(node.inputs.front());
    input.batch = batch;
    want(all, node.op, input, graph.input_of(node.inputs.front()) >= 0, precision);
  }
}

/// All requests of the models, each once.
std::vector<Wanted> requests_of_models(const Precision& precision) {
  struct Job {
    const char* model;
    std::int64_t batch;
    nn::DataSpec data;
  };
  const auto labels = [](std::int64_t height, std::int64_t width) {
    return TensorSpec{"labels", {1, height, width}, Content::integer};
  };
  const std::int64_t cells = 16 * 16 + 8 * 8 + 4 * 4;
  const Job jobs[] = {
      {"lenet", 256, nn::DataSpec::of_images(1, 28, 28, 10)},
      {"resnet20", 256, nn::DataSpec::of_images(3, 32, 32, 10)},
      {"resnet18", 256, nn::DataSpec::of_images(3, 32, 32, 10)},
      {"mobilenet-v2", 128, nn::DataSpec::of_images(3, 224, 224, 1000)},
      {"unet", 16, {{{"images", {3, 64, 64}}, labels(64, 64)}, 3}},
      {"detector",
       16,
       {{{"images", {3, 64, 64}}, labels(1, cells), {"objects", {1, 1, cells}}, {"boxes", {4, 1, cells}}}, 3}},
      {"resnet50", 256, nn::DataSpec::of_images(3, 224, 224, 1000)}};
  std::map<std::string, Wanted> all;
  const nn::Models models;
  for (const Job& job : jobs) {
    want(all, nn::fuse_activations(nn::fuse_additions(models.make(job.model, job.data))), job.batch, precision);
  }
  std::vector<Wanted> requests;
  for (const auto& [key, wanted] : all) requests.push_back(wanted);
  return requests;
}

/// The smallest workspace of the ways to compute a request, each of which must give a plan.
std::int64_t least_workspace(Convolutions& cudnn, const ConvolutionRequest& request) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::string& word : cudnn.candidates(request)) {
    least = std::min(least, cudnn.plan(request, word)->get().plan->workspace().value);
  }
  return least;
}

/// Returns the message of the error with which the plan is refused; empty if there is one.
std::string refusal_of(Convolutions& cudnn, const ConvolutionRequest& request, const std::string& word) {
  try {
    (void)cudnn.plan(request, word)->get();
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.message();
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A layer of a residual network.
ConvolutionRequests example(DType dtype, bool tf32 = false, bool bias = false) {
  const Convolution layer{.out_channels = 64, .kernel = 3, .padding = 1, .bias = bias};
  return requests_of(layer, {32, 64, 28, 28}, dtype, tf32);
}

// It comes first, because cuDNN is loaded only once.
TEST(Cudnn, ALibraryThatCannotBeLoadedIsNamedWithTheRemedy) {
  const auto message_with = [](const char* file) {
    setenv("LOCKSTEP_CUDNN_LIBRARY", file, 1);
    std::string message;
    EXPECT_FALSE(cudnn_for(90, message));
    unsetenv("LOCKSTEP_CUDNN_LIBRARY");
    return message;
  };
  const std::string message = message_with("/nonexistent/libcudnn.so.9");
  if (has(message, "built without")) LOCKSTEP_SKIP(cudnn) << message;
  for (const char* part : {"LOCKSTEP_CUDNN_LIBRARY=/nonexistent/libcudnn.so.9", "No such file or directory",
                           "version 9.8.0 or newer", "nvidia-cudnn-cu"}) {
    EXPECT_PRED2(has, message, part);
  }
  EXPECT_PRED2(has, message_with("libm.so.6"), "libm.so.6 is no cuDNN");
}

TEST(Cudnn, WordsAreTheSameEveryTimeAndForAnotherObject) {
  std::string why_not;
  const auto first = cudnn_for(90, why_not);
  if (!first) LOCKSTEP_SKIP(cudnn) << why_not;
  const auto second = cudnn_for(90, why_not);
  const ConvolutionRequest request = example(DType::bfloat16).backward_weights;
  const std::vector<std::string> words = first->candidates(request);
  EXPECT_GT(words.size(), 3U);
  EXPECT_EQ(words, first->candidates(request));
  EXPECT_EQ(words, second->candidates(request));
  for (const std::string& word : words) {
    EXPECT_EQ(second->plan(request, word)->get().plan->workspace(), first->plan(request, word)->get().plan->workspace())
        << word;
  }
}

// cuDNN would load it again for every engine that it is asked about, which took more time than all else.
TEST(Cudnn, NvrtcStaysLoaded) {
  std::string why_not;
  const auto cudnn = cudnn_for(90, why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  const std::string file = LOCKSTEP_FOUND_NVRTC;
  const std::string name = file.substr(file.rfind('/') + 1);
  if (dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr) return;
  const bool can_be_found = dlopen(name.c_str(), RTLD_LAZY) != nullptr;
  EXPECT_FALSE(can_be_found) << name;
  if (!can_be_found) LOCKSTEP_SKIP(cudnn) << name << " is not where the loader looks";
}

TEST(Cudnn, WhatItLacksIsRefusedByName) {
  std::string why_not;
  const auto cudnn = cudnn_for(90, why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  const ConvolutionRequest request = example(DType::bfloat16).forward;
  for (const char* word :
       {"direct", "eng", "eng1,k", "eng1,k2=", "eng1 k2=1", "fused,", "fused,eng0", "eng9999", "eng0,k2=77"}) {
    const std::string message = refusal_of(*cudnn, request, word);
    EXPECT_PRED2(has, message, "'" + std::string(word) + "'");
    EXPECT_PRED2(has, message, text(request));
  }
}

TEST(Cudnn, Float32NeverUsesTensorCores) {
  std::string why_not;
  const auto cudnn = cudnn_for(90, why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  const std::string word = cudnn->candidates(example(DType::float32, true).forward).front();
  EXPECT_EQ(refusal_of(*cudnn, example(DType::float32, true).forward, word), "");
  EXPECT_PRED2(has, refusal_of(*cudnn, example(DType::float32).forward, word), "tensor cores");
}

TEST(Cudnn, NoEngineThatAddsAtomicallyIsTaken) {
  std::string why_not;
  const auto cudnn = cudnn_for(90, why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  const ConvolutionRequest request = example(DType::float32, true).backward_weights;
  const std::vector<std::string> words = cudnn->candidates(request);
  int refused = 0;
  for (int engine = 0; engine < 100; ++engine) {
    const std::string word = "eng" + std::to_string(engine);
    if (!has(refusal_of(*cudnn, request, word), "in another order every time")) continue;
    ++refused;
    EXPECT_TRUE(std::none_of(words.begin(), words.end(), [&](const std::string& taken) {
      return taken == word || taken.starts_with(word + ",");
    })) << word;
  }
  EXPECT_GT(refused, 0);
}

TEST(Cudnn, AFusedReluLetsNanPass) {
  std::string why_not;
  const auto cudnn = cudnn_for(90, why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  const ConvolutionRequest with_bias = example(DType::float32, true, true).forward;
  ConvolutionRequest with_relu = with_bias;
  with_relu.relu = true;
  int without_relu_only = 0;
  for (int engine = 0; engine < 100; ++engine) {
    const std::string word = "fused,eng" + std::to_string(engine);
    without_relu_only +=
        has(refusal_of(*cudnn, with_relu, word), "may hide NaN") && refusal_of(*cudnn, with_bias, word).empty() ? 1 : 0;
  }
  EXPECT_GT(without_relu_only, 0);
}

TEST(Cudnn, ThereIsAPlanForEveryConvolutionThatOperatorsAreTestedWith) {
  std::string why_not;
  const auto cudnn = cudnn_for(90, why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  for (const Precision& precision : precisions) {
    std::map<std::string, Wanted> all;
    for (const test::Row& row : test::rows()) want(all, row.op, row.inputs.front(), false, precision);
    ASSERT_GT(all.size(), 90U);
    for (const auto& [key, wanted] : all) EXPECT_FALSE(cudnn->candidates(wanted.request).empty()) << key;
  }
}

class CudnnPlans : public testing::TestWithParam<int> {};

TEST_P(CudnnPlans, ThereIsOneForEveryPassOfEveryModelInEveryPrecision) {
  std::string why_not;
  const auto cudnn = cudnn_for(GetParam(), why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  for (const Precision& precision : precisions) {
    const std::vector<Wanted> requests = requests_of_models(precision);
    ASSERT_GT(requests.size(), 200U);
    for (const auto& [request, is_stem] : requests) {
      const std::int64_t workspace = least_workspace(*cudnn, request);
      EXPECT_NE(workspace, std::numeric_limits<std::int64_t>::max()) << "no plan for " << text(request);
      if (is_stem && size_of(request.dtype) == 2) {
        EXPECT_LT(workspace, request.x.count() * size_of(request.dtype)) << text(request);
      }
    }
  }
}

// With a driver that only seems to be there, cuDNN compiles code for the passes for which it has none.
TEST_P(CudnnPlans, CodeIsCompiledForFloat32GradientsAndForBias) {
  std::string why_not;
  const auto cudnn = cudnn_for(GetParam(), why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  ASSERT_NE(dlopen(LOCKSTEP_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  if (dlopen(LOCKSTEP_FOUND_NVRTC, RTLD_NOW | RTLD_GLOBAL) == nullptr) LOCKSTEP_SKIP(cudnn) << dlerror();
  ConvolutionRequest weights = example(DType::bfloat16).backward_weights;
  const std::vector<std::string> for_bfloat16 = cudnn->candidates(weights);
  weights.result = DType::float32;
  ConvolutionRequest fused = example(DType::bfloat16, false, true).forward;
  fused.relu = true;
  for (const ConvolutionRequest& request : {weights, fused}) {
    const std::vector<std::string> words = cudnn->candidates(request);
    ASSERT_FALSE(words.empty()) << text(request);
    EXPECT_NE(words, for_bfloat16);
    EXPECT_TRUE(cudnn->plan(request, words.front())->get().plan->applies_epilogue()) << words.front();
  }
}
// Plans with statistics take seconds to compile, so that float16 gets one for one architecture only.
TEST_P(CudnnPlans, CodeIsCompiledForStatistics) {
  std::string why_not;
  const auto cudnn = cudnn_for(GetParam(), why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  ASSERT_NE(dlopen(LOCKSTEP_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  if (dlopen(LOCKSTEP_FOUND_NVRTC, RTLD_NOW | RTLD_GLOBAL) == nullptr) LOCKSTEP_SKIP(cudnn) << dlerror();
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    ConvolutionRequest request = example(dtype).forward;
    const std::string rule = cudnn->candidates(request).front();
    request.statistics = true;
    const std::vector<std::string> words = cudnn->candidates(request);
    ASSERT_TRUE(!words.empty() && words.back().starts_with("fused,")) << "no engine for " << text(request);
    EXPECT_EQ(words.front(), rule);
    EXPECT_FALSE(cudnn->plan(request, words.front())->get().plan->applies_epilogue()) << words.front();
    if (dtype == DType::float16 && GetParam() != 90) continue;
    EXPECT_TRUE(cudnn->plan(request, words.back())->get().plan->applies_epilogue()) << words.back();
  }
}
// Tensor cores would round float32.
TEST(Cudnn, Float32HasNoStatisticsInItsEpilogue) {
  std::string why_not;
  const auto cudnn = cudnn_for(90, why_not);
  if (!cudnn) LOCKSTEP_SKIP(cudnn) << why_not;
  ConvolutionRequest request = example(DType::float32).forward;
  const std::vector<std::string> words = cudnn->candidates(request);
  request.statistics = true;
  EXPECT_EQ(cudnn->candidates(request), words);
}
INSTANTIATE_TEST_SUITE_P(Architectures, CudnnPlans, testing::Values(80, 90, 100));

}  // namespace
}  // namespace lockstep::ops::cuda
