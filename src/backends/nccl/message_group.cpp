// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/message_group.hpp"

#include <string>

#include "backends/nccl/nccl_check.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return ncclFloat32;
    case DType::float64: return ncclFloat64;
    case DType::int32: return ncclInt32;
    case DType::int64: return ncclInt64;
    case DType::uint8: return ncclUint8;
    case DType::float16: return ncclFloat16;
    case DType::bfloat16: return ncclBfloat16;
  }
  throw Error(ErrorCode::unsupported, "NCCL has no type for " + std::string(name(dtype)));
}

MessageGroup::MessageGroup(ncclComm_t communicator, cudaStream_t stream)
    : communicator_(communicator), stream_(stream) {
  LOCKSTEP_NCCL_CHECK(ncclGroupStart(), communicator);
}

MessageGroup::~MessageGroup() {
  if (open_) ncclGroupEnd();
}

bool MessageGroup::takes(Count count) const {
  return count.value > 0 && (result_ == ncclSuccess || result_ == ncclInProgress);
}

void MessageGroup::send(const ConstBuffer& data, int peer) {
  if (!takes(data.count)) return;
  result_ = ncclSend(data.data, static_cast<std::size_t>(data.count.value), nccl_type(data.dtype), peer, communicator_,
                     stream_);
}

void MessageGroup::receive(const Buffer& data, int peer) {
  if (!takes(data.count)) return;
  result_ = ncclRecv(data.data, static_cast<std::size_t>(data.count.value), nccl_type(data.dtype), peer, communicator_,
                     stream_);
}

void MessageGroup::close() {
  open_ = false;
  const ncclResult_t closed = ncclGroupEnd();
  LOCKSTEP_NCCL_CHECK(result_, communicator_);
  LOCKSTEP_NCCL_CHECK(closed, communicator_);
}

}  // namespace lockstep::backends
