// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/reduction.hpp"

#include <cstring>
#include <map>

#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/communicator.hpp"

namespace emulated_gpu {
namespace {

struct OwnOperator {
  const Communicator* communicator;
  ncclDataType_t type;
  Reduction reduction;
};

/// Returns the custom operators by their handles. It needs the device's lock.
std::map<int, OwnOperator>& own_operators() {
  static auto* all = new std::map<int, OwnOperator>;
  return *all;
}

}  // namespace

std::optional<Reduction> find_reduction(ncclRedOp_t op, ncclDataType_t type, const Communicator& communicator) {
  if (op >= ncclSum && op < ncclNumOps) return Reduction{.op = op};
  const std::scoped_lock lock(device_lock());
  const auto found = own_operators().find(static_cast<int>(op));
  if (found == own_operators().end()) return std::nullopt;
  const OwnOperator& own = found->second;
  if (own.communicator != &communicator || own.type != type) return std::nullopt;
  return own.reduction;
}

}  // namespace emulated_gpu

extern "C" {

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  using namespace emulated_gpu;
  EMULATED_NCCL_CALL("ncclRedOpCreatePreMulSum");
  if (const ncclResult_t result = check_usable(comm); result != ncclSuccess) return result;
  if (op == nullptr || scalar == nullptr || size_of(type) == 0)
    return refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: invalid type, or nothing to read or write");
  const std::scoped_lock lock(device_lock());
  Reduction reduction{.op = ncclSum, .has_factor = true};
  if (residence == ncclScalarHostImmediate) {
    std::memcpy(reduction.factor.data(), scalar, size_of(type));
  } else {
    reduction.factor_place = scalar;
  }
  static int made = static_cast<int>(ncclNumOps);
  own_operators()[made] = {comm->communicator.get(), type, reduction};
  *op = static_cast<ncclRedOp_t>(made++);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  using namespace emulated_gpu;
  EMULATED_NCCL_CALL("ncclRedOpDestroy");
  if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclRedOpDestroy: the communicator is null");
  const std::scoped_lock lock(device_lock());
  const auto found = own_operators().find(static_cast<int>(op));
  if (found == own_operators().end() || found->second.communicator != comm->communicator.get())
    return refuse(ncclInvalidArgument, "ncclRedOpDestroy: the communicator has no such operator of its own");
  own_operators().erase(found);
  return ncclSuccess;
}

}  // extern "C"
