// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include "lockstep/base/buffer.hpp"

namespace lockstep::backends {

/// @throws Error{unsupported} for a type that NCCL does not have
ncclDataType_t nccl_type(DType dtype);

/// Sends and receives that NCCL runs as one. Between the same two ranks they match in the order of the calls.
class MessageGroup {
 public:
  MessageGroup(ncclComm_t communicator, cudaStream_t stream);
  MessageGroup(const MessageGroup&) = delete;
  MessageGroup& operator=(const MessageGroup&) = delete;
  /// Closes the group if nobody has: an open one would swallow every later call of this thread.
  ~MessageGroup();

  /// One that has no elements is left out, on both sides. After a call that was refused the others are.
  void send(const ConstBuffer& data, int peer);
  void receive(const Buffer& data, int peer);
  /// Hands it over. @throws what NCCL had against one of the calls
  void close();

 private:
  [[nodiscard]] bool takes(Count count) const;

  ncclComm_t communicator_;
  cudaStream_t stream_;
  ncclResult_t result_ = ncclSuccess;
  bool open_ = true;
};

}  // namespace lockstep::backends
