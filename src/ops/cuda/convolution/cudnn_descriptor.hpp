// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "ops/cuda/convolution/cudnn_library.hpp"

/// Descriptors of cuDNN's graph API, which consists of these only.
namespace lockstep::ops::cuda {

// The types of attributes' values. Descriptors and addresses are both void*; see set_descriptors and set_pointers.
constexpr auto attribute_type(std::int64_t) { return CUDNN_TYPE_INT64; }
constexpr auto attribute_type(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto attribute_type(float) { return CUDNN_TYPE_FLOAT; }
constexpr auto attribute_type(char) { return CUDNN_TYPE_CHAR; }
constexpr auto attribute_type(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
constexpr auto attribute_type(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto attribute_type(cudnnConvolutionMode_t) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr auto attribute_type(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr auto attribute_type(cudnnReduceTensorOp_t) { return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE; }
constexpr auto attribute_type(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
constexpr auto attribute_type(cudnnBackendKnobType_t) { return CUDNN_TYPE_KNOB_TYPE; }
constexpr auto attribute_type(cudnnBackendNumericalNote_t) { return CUDNN_TYPE_NUMERICAL_NOTE; }
constexpr auto attribute_type(cudnnBackendBehaviorNote_t) { return CUDNN_TYPE_BEHAVIOR_NOTE; }

/// @throws Error{device} with cuDNN's text unless the call succeeded
inline void check_cudnn(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(ErrorCode::device, "cuDNN " + cudnn().version + " fails to " + what + ": " + text_of(status));
}

/// A descriptor of the graph API. Attributes are set, it is finalized, and then it can be used and read.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check_cudnn(cudnn().BackendCreateDescriptor(type, &native_), "create a descriptor");
  }
  Descriptor(Descriptor&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (native_ != nullptr) cudnn().BackendDestroyDescriptor(native_);
  }

  [[nodiscard]] cudnnBackendDescriptor_t native() const { return native_; }

  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    return set(name, attribute_type(T{}), values.data(), values.size());
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, std::span<const T>(&value, 1));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &value.native_, 1);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values) {
    std::vector<cudnnBackendDescriptor_t> natives;
    for (const Descriptor& value : values) natives.push_back(value.native());
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, natives.data(), natives.size());
  }
  Descriptor& set_pointers(cudnnBackendAttributeName_t name, std::span<void* const> values) {
    return set(name, CUDNN_TYPE_VOID_PTR, values.data(), values.size());
  }

  /// Returns whether cuDNN supports what the attributes describe.
  [[nodiscard]] bool try_to_finalize() { return cudnn().BackendFinalize(native_) == CUDNN_STATUS_SUCCESS; }
  Descriptor finalize(const char* what) && {
    check_cudnn(cudnn().BackendFinalize(native_), what);
    return std::move(*this);
  }

  template <typename T>
  [[nodiscard]] std::vector<T> values(cudnnBackendAttributeName_t name) const {
    std::int64_t count = 0;
    check_cudnn(cudnn().BackendGetAttribute(native_, name, attribute_type(T{}), 0, &count, nullptr),
                "count an attribute");
    std::vector<T> found(static_cast<std::size_t>(count));
    if (count > 0) {
      check_cudnn(cudnn().BackendGetAttribute(native_, name, attribute_type(T{}), count, &count, found.data()),
                  "read an attribute");
    }
    found.resize(static_cast<std::size_t>(count));
    return found;
  }
  template <typename T>
  [[nodiscard]] T value(cudnnBackendAttributeName_t name) const {
    const std::vector<T> found = values<T>(name);
    return found.empty() ? T{} : found.front();
  }
  /// Whether an engine has a note.
  template <typename T>
  [[nodiscard]] bool has_note(cudnnBackendAttributeName_t name, T note) const {
    const std::vector<T> notes = values<T>(name);
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  }
  /// Returns the descriptors that an attribute refers to, at most `most`; not all attributes tell their number before.
  [[nodiscard]] std::vector<Descriptor> parts(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                              std::int64_t most) const {
    std::vector<Descriptor> found;
    std::vector<cudnnBackendDescriptor_t> natives;
    for (std::int64_t i = 0; i < most; ++i) natives.push_back(found.emplace_back(type).native());
    std::int64_t count = 0;
    check_cudnn(cudnn().BackendGetAttribute(native_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, natives.data()),
                "read descriptors");
    found.erase(found.begin() + std::min(count, most), found.end());
    return found;
  }

 private:
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const void* values,
                  std::size_t count) {
    check_cudnn(cudnn().BackendSetAttribute(native_, name, type, static_cast<std::int64_t>(count), values),
                "set an attribute");
    return *this;
  }

  cudnnBackendDescriptor_t native_ = nullptr;
};

}  // namespace lockstep::ops::cuda
