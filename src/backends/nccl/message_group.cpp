// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/message_group.hpp"

#include <string>

#include "backends/nccl/nccl_library.hpp"
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

CallGroup::CallGroup(ncclComm_t communicator) : communicator_(communicator) {
  LOCKSTEP_NCCL_CHECK(GroupStart(), communicator);
}

CallGroup::~CallGroup() {
  if (open_) nccl().GroupEnd();
}

void CallGroup::add(ncclResult_t result, const char* call) {
  if (!is_good()) return;
  result_ = result;
  refused_ = call;
}

void CallGroup::close() {
  open_ = false;
  const ncclResult_t closed = nccl().GroupEnd();
  if (!is_good()) throw_nccl_error(result_, refused_, communicator_);
  if (closed != ncclSuccess && closed != ncclInProgress) throw_nccl_error(closed, "ncclGroupEnd", communicator_);
}

bool MessageGroup::takes(Count count) const { return count > 0 && group_.is_good(); }

void MessageGroup::send(const ConstBuffer& data, int peer) {
  if (!takes(data.count)) return;
  group_.add(nccl().Send(data.data, static_cast<std::size_t>(data.count.value), nccl_type(data.dtype), peer,
                         communicator_, stream_),
             "ncclSend");
}

void MessageGroup::receive(const Buffer& data, int peer) {
  if (!takes(data.count)) return;
  group_.add(nccl().Recv(data.data, static_cast<std::size_t>(data.count.value), nccl_type(data.dtype), peer,
                         communicator_, stream_),
             "ncclRecv");
}

}  // namespace lockstep::backends
