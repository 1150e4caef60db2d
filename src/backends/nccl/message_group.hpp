// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include "lockstep/base/buffer.hpp"

namespace lockstep::backends {

/// @throws Error{unsupported} for a type that NCCL does not have
ncclDataType_t nccl_type(DType dtype);

/// A group of calls that NCCL runs as one.
class CallGroup {
 public:
  explicit CallGroup(ncclComm_t communicator);
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  /// Closes the group if it is open, because an open one would take in every later call of this thread.
  ~CallGroup();

  /// Records what a call returned. @param call  its name, for messages
  void add(ncclResult_t result, const char* call);
  /// Returns whether NCCL has accepted all calls so far.
  [[nodiscard]] bool is_good() const { return result_ == ncclSuccess || result_ == ncclInProgress; }
  /// Submits the group to NCCL. @throws the error of a call that NCCL refused
  void close();

 private:
  ncclComm_t communicator_;
  ncclResult_t result_ = ncclSuccess;
  const char* refused_ = "";  // the call that returned result_
  bool open_ = true;
};

/// Sends and receives that NCCL runs as one. Between the same two ranks they match in the order of the calls.
class MessageGroup {
 public:
  MessageGroup(ncclComm_t communicator, cudaStream_t stream)
      : group_(communicator), communicator_(communicator), stream_(stream) {}

  /// Sends to a peer. A message without elements is omitted on both sides, and so is every message after a call that
  /// NCCL refused.
  void send(const ConstBuffer& data, int peer);
  void receive(const Buffer& data, int peer);
  /// Submits the group, as CallGroup::close.
  void close() { group_.close(); }

 private:
  [[nodiscard]] bool takes(Count count) const;

  CallGroup group_;
  ncclComm_t communicator_;
  cudaStream_t stream_;
};

}  // namespace lockstep::backends
