// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/reduction.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <map>
#include <mutex>

#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/communicator.hpp"

namespace emulated_gpu {
namespace {

std::map<int, double>& factors() {
  static auto* all = new std::map<int, double>;
  return *all;
}

template <typename T>
double read_as(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return static_cast<double>(static_cast<float>(value));
}

double factor_from(const std::byte* data, ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return read_as<__half>(data);
    case ncclBfloat16: return read_as<__nv_bfloat16>(data);
    case ncclFloat32: return read_as<float>(data);
    case ncclInt32: return read_as<int>(data);
    case ncclFloat64: {
      double value = 0;
      std::memcpy(&value, data, sizeof value);
      return value;
    }
    default: return 1;
  }
}

}  // namespace

std::optional<Reduction> find_reduction(ncclRedOp_t op) {
  if (op >= ncclSum && op < ncclNumOps) return Reduction{.op = op};
  const std::scoped_lock lock(device_lock());
  const auto found = factors().find(static_cast<int>(op));
  if (found == factors().end()) return std::nullopt;
  return Reduction{.op = ncclSum, .has_factor = true, .factor = found->second};
}

}  // namespace emulated_gpu

extern "C" {

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t /*residence*/, ncclComm_t comm) {
  using namespace emulated_gpu;
  EMULATED_NCCL_CALL("ncclRedOpCreatePreMulSum");
  if (const ncclResult_t result = check_usable(comm); result != ncclSuccess) return result;
  const std::scoped_lock lock(device_lock());
  static int made = static_cast<int>(ncclNumOps);
  factors()[made] = factor_from(Memory::instance().view(scalar, size_of(type), "ncclRedOpCreatePreMulSum"), type);
  *op = static_cast<ncclRedOp_t>(made++);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t /*comm*/) {
  const std::scoped_lock lock(emulated_gpu::device_lock());
  return emulated_gpu::factors().erase(static_cast<int>(op)) > 0 ? ncclSuccess : ncclInvalidArgument;
}

}  // extern "C"
