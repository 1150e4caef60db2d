// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/group.hpp"

namespace emulated_gpu {

inline const void* offset(const void* address, std::size_t bytes) {
  return static_cast<const std::byte*>(address) + bytes;
}
inline void* offset(void* address, std::size_t bytes) { return static_cast<std::byte*>(address) + bytes; }

/// A call that is checked first and then constructed.
class Builder {
 public:
  Builder(const char* name, ncclComm_t handle, ncclDataType_t type) : handle_(handle) {
    exchange_.name = name;
    result_ = injected_nccl_error(name);
    if (result_ == ncclSuccess) result_ = check_usable(handle);
    is_there_ = handle != nullptr && handle->communicator != nullptr;
    if (result_ == ncclSuccess && size_of(type) == 0) refuse_it(std::string(name) + ": invalid type");
    sign(std::hash<std::string>()(name));
    sign(static_cast<std::uint64_t>(type));
  }
  [[nodiscard]] bool is_good() const { return result_ == ncclSuccess; }
  [[nodiscard]] Communicator& communicator() const { return *handle_->communicator; }
  [[nodiscard]] int rank() const { return communicator().rank; }
  [[nodiscard]] int ranks() const { return communicator().ranks; }
  Exchange& exchange() { return exchange_; }

  void sign(std::uint64_t value) { exchange_.signature = exchange_.signature * 1099511628211U + value + 1; }
  void check_root(int root) {
    if (is_good() && (root < 0 || root >= ranks()))
      refuse_it(exchange_.name + ": invalid root " + std::to_string(root));
    sign(static_cast<std::uint64_t>(root));
  }
  /// Checks that the memory belongs to this communicator's GPU, as NCCL does with NCCL_CHECK_POINTERS.
  void check_pointer(const void* address, std::size_t bytes, const char* which) {
    if (!is_good() || bytes == 0) return;
    const std::scoped_lock lock(device_lock());
    const Block* block = Memory::instance().find(address);
    if (block == nullptr || block->was_freed)
      return refuse_it(exchange_.name + ": " + which + " is not a valid pointer");
    if (block->type == MemoryType::device && block->gpu != communicator().device.number)
      refuse_it(exchange_.name + ": " + which + " is allocated on device " + std::to_string(block->gpu));
  }
  /// Checks that both buffers are the same, or that they do not overlap.
  void check_overlap(const void* in, std::size_t in_bytes, const void* out, std::size_t out_bytes, bool in_place) {
    if (!is_good() || in_place || in_bytes == 0 || out_bytes == 0) return;
    const auto* a = static_cast<const std::byte*>(in);
    const auto* b = static_cast<const std::byte*>(out);
    if (std::less<>()(a, b + out_bytes) && std::less<>()(b, a + in_bytes))
      refuse_it(exchange_.name + ": sendbuff and recvbuff overlap, and this is not in place");
  }
  /// @param function  its name in NCCL_ALGO
  void check_algorithm(const char* function) {
    if (is_good() && ranks() > 1 && !communicator().has_ring_for(function))
      result_ = communicator().fail(ncclInvalidUsage, exchange_.name + ": no algorithm is left by NCCL_ALGO");
  }

  void refuse_it(const std::string& why) { result_ = communicator().fail(ncclInvalidArgument, why); }

  /// Sends to rank `peer`. If that is this rank, the data are copied unless the addresses are equal.
  void send(int peer, const void* from, std::size_t bytes) { exchange_.out.push_back({peer, from, bytes}); }
  void receive(int peer, void* to, std::size_t bytes) { exchange_.in.push_back({peer, to, bytes}); }

  ncclResult_t launch(bool is_message, cudaStream_t stream) {
    if (is_good()) return add_to_group(handle_, std::move(exchange_), is_message, stream);
    if (is_there_) communicator().refuse_call(result_, communicator().last_error());
    return refuse_in_group(result_);
  }

 private:
  ncclComm_t handle_;
  bool is_there_ = false;
  Exchange exchange_;
  ncclResult_t result_ = ncclSuccess;
};

}  // namespace emulated_gpu
