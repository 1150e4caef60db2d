// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

namespace emulated_gpu {

inline void expect_no_error(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code); }

/// GPU memory with these initial elements.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : count_(values.size()) {
    expect_no_error(cudaMalloc(&data_, bytes()));
    expect_no_error(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }
  /// Returns the elements once all earlier work is done.
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> host(count_);
    expect_no_error(cudaGetLastError());
    expect_no_error(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  std::size_t count_;
  void* data_ = nullptr;
};

}  // namespace emulated_gpu
