// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

/// Ranks of NCCL as threads of a test, each with its own GPU.
namespace emulated_gpu::nccl_test {

inline void check(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

/// @throws std::runtime_error unless the result is success or in progress
inline void check(ncclResult_t code) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  throw std::runtime_error(std::string(ncclGetErrorString(code)) + ": " + ncclGetLastError(nullptr));
}

inline ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm, &state));
  return state;
}

/// Polls until the condition is true. @throws std::runtime_error after a minute
inline void wait_until(const std::function<bool()>& is_so) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) throw std::runtime_error("waited for a minute");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// Returns whether the condition stays true for as long as a wrong emulation would need to violate it.
inline bool stays(const std::function<bool()>& so) {
  for (int look = 0; look < 100; ++look) {
    if (!so()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Waits until the communicator is ready for the next call. @return the result of the last call
inline ncclResult_t settle(ncclComm_t comm) {
  wait_until([comm] { return state_of(comm) != ncclInProgress; });
  return state_of(comm);
}

inline ncclConfig_t configuration(bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  return config;
}

inline ncclUniqueId new_id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id));
  return id;
}

/// Runs the body on a thread for each rank, with its own GPU. A rank that fails ends the test's process, because others
/// may wait for it forever.
inline void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&body, rank] {
      try {
        check(cudaSetDevice(rank));
        body(rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        std::_Exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Rank {
  int rank = 0;
  int ranks = 1;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  /// Waits until the stream has done all calls, even if their work reaches the stream late.
  void finish() const {
    check(settle(comm));
    check(cudaStreamSynchronize(stream));
  }
};

/// Does the same with a communicator of all ranks, which is destroyed afterwards unless the body has taken it.
inline void on_ranks(int ranks, bool blocking, const std::function<void(Rank&)>& body) {
  const ncclUniqueId id = new_id();
  on_threads(ranks, [&](int number) {
    Rank rank{.rank = number, .ranks = ranks};
    ncclConfig_t config = configuration(blocking);
    check(ncclCommInitRankConfig(&rank.comm, ranks, id, number, &config));
    check(settle(rank.comm));
    check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
    body(rank);
    if (rank.comm != nullptr) {
      check(ncclCommFinalize(rank.comm));
      check(settle(rank.comm));
      check(ncclCommDestroy(rank.comm));
    }
    check(cudaStreamDestroy(rank.stream));
  });
}

/// Values on the GPU that the thread has selected.
template <typename T>
class DeviceValues {
 public:
  explicit DeviceValues(std::size_t count) : count_(count) { check(cudaMalloc(&data_, count * sizeof(T))); }
  explicit DeviceValues(const std::vector<T>& values) : DeviceValues(values.size()) { set(values); }
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;
  ~DeviceValues() { cudaFree(data_); }

  [[nodiscard]] T* data(std::size_t first = 0) const { return static_cast<T*>(data_) + first; }
  void set(const std::vector<T>& values, std::size_t first = 0) {
    check(cudaMemcpy(data(first), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

template <typename T>
constexpr ncclDataType_t type_of() {
  if constexpr (std::is_same_v<T, std::int8_t>) return ncclInt8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return ncclUint8;
  if constexpr (std::is_same_v<T, std::int32_t>) return ncclInt32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return ncclUint32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ncclInt64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ncclUint64;
  if constexpr (std::is_same_v<T, __half>) return ncclFloat16;
  if constexpr (std::is_same_v<T, float>) return ncclFloat32;
  if constexpr (std::is_same_v<T, double>) return ncclFloat64;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return ncclBfloat16;
}

template <typename T>
T from_integer(std::int64_t value) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) {
    return static_cast<T>(value);
  } else {
    return static_cast<T>(static_cast<float>(value));
  }
}

template <typename T>
double to_double(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

}  // namespace emulated_gpu::nccl_test
