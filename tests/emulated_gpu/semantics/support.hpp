// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/verdict.hpp"

/// Statements of the documentation of CUDA and NCCL as tests, which pass on a real GPU as well as on an emulated one.
/// They call only the public functions of the two libraries.
namespace emulated_gpu::semantics {

/// Checks a call that the test is not about. @throws std::runtime_error unless it has succeeded
inline void check(cudaError_t error, const std::source_location& where = std::source_location::current()) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " +
                           cudaGetErrorName(error));
}

/// Returns the number of GPUs; 0 if there are none, for whatever reason.
inline int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamDefault) { check(cudaStreamCreateWithFlags(&stream_, flags)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  operator cudaStream_t() const { return stream_; }  // NOLINT: as a handle, it goes into every call
  void destroy() { check(cudaStreamDestroy(std::exchange(stream_, nullptr))); }
  void synchronize() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) { check(cudaEventCreateWithFlags(&event_, flags)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  operator cudaEvent_t() const { return event_; }  // NOLINT
  void destroy() { check(cudaEventDestroy(std::exchange(event_, nullptr))); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Device memory, all bytes 0.
template <typename T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) {
    void* address = nullptr;
    check(cudaMalloc(&address, bytes()));
    data_ = static_cast<T*>(address);
    check(cudaMemset(data_, 0, bytes()));
    check(cudaDeviceSynchronize());
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(data_); }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  /// @pre the work that writes them is done, or is in a stream for which the legacy stream waits
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

/// Pinned memory, all bytes 0.
template <typename T>
class Pinned {
 public:
  explicit Pinned(std::size_t count) : count_(count) {
    void* address = nullptr;
    check(cudaMallocHost(&address, bytes()));
    data_ = static_cast<T*>(address);
    for (std::size_t i = 0; i < count; ++i) data_[i] = T{};
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(data_); }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

/// Holds a stream back until it is opened, with a host function that waits, so that "not yet" is observed without a
/// clock. Host functions of other streams may wait behind it (cudaLaunchHostFunc), so there is one gate at a time.
/// Calls that may wait for the whole device, such as cudaMalloc, are made before it.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) { check(cudaLaunchHostFunc(stream, &Gate::wait, new Shared(shared_))); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void open() {
    {
      const std::scoped_lock lock(shared_->mutex);
      shared_->is_open = true;
    }
    shared_->news.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable news;
    bool is_open = false;
  };
  using Shared = std::shared_ptr<State>;
  static void CUDART_CB wait(void* data) {
    const std::unique_ptr<Shared> shared(static_cast<Shared*>(data));
    std::unique_lock lock((*shared)->mutex);
    (*shared)->news.wait(lock, [&] { return (*shared)->is_open; });
  }
  Shared shared_ = std::make_shared<State>();
};

/// Polls with a deadline that only a failing test reaches.
template <typename Condition>
bool becomes_true(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}
inline bool becomes_ready(cudaStream_t stream) {
  return becomes_true([stream] { return cudaStreamQuery(stream) == cudaSuccess; });
}
inline bool becomes_complete(cudaEvent_t event) {
  return becomes_true([event] { return cudaEventQuery(event) == cudaSuccess; });
}
/// Returns whether the stream stays busy behind a closed gate.
inline bool stays_busy(cudaStream_t stream) {
  for (int i = 0; i < 100; ++i)
    if (cudaStreamQuery(stream) != cudaErrorNotReady) return false;
  return true;
}
inline bool stays_incomplete(cudaEvent_t event) {
  for (int i = 0; i < 100; ++i)
    if (cudaEventQuery(event) != cudaErrorNotReady) return false;
  return true;
}

/// A fixture that needs a GPU. It begins on device 0 without an error, and ends with all work done.
class Gpu : public testing::Test {
 protected:
  /// A kernel that is loaded at its first launch may wait for the device while a gate is closed.
  /// @source CUDA C++ Programming Guide 13.0, Lazy Loading, "Concurrent execution"
  static void SetUpTestSuite() { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }
  void SetUp() override {
    if (gpu_count() == 0) LOCKSTEP_SKIP(gpu) << "there is none";
    check(cudaSetDevice(0));
    check(cudaFree(nullptr));
    cudaGetLastError();
  }
  void TearDown() override {
    if (gpu_count() == 0) return;
    check(cudaSetDevice(0));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cudaGetLastError();
  }
};

/// A fixture that needs two GPUs.
class TwoGpus : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (gpu_count() == 1) LOCKSTEP_SKIP(ranks) << "there is one GPU only";
  }
};

/// Runs a function on a thread of its own, which has ended on return.
template <typename Function>
void on_another_thread(const Function& function) {
  std::thread(function).join();
}

}  // namespace emulated_gpu::semantics
