#include "backends/nccl/nccl_operation.hpp"

#include <algorithm>

#include "backends/nccl/nccl_check.hpp"
#include "backends/nccl/nccl_communicator.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {
namespace {

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

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::product: return ncclProd;
  }
  throw Error(ErrorCode::unsupported, "NCCL has no operator for " + std::string(name(op)));
}

}  // namespace

void NcclOperation::submit(const Collective& collective) {
  restart();
  collective_ = collective;
  signature_ = signature_of(collective);
  label_.assign(collective.label);
  collective_.label = label_;
  stage_ = Stage::queued;
  submitted_ = Clock::now();
  if (!collective.queue.is_host()) ready_.record(collective.queue);
}

void NcclOperation::launch(ncclComm_t communicator, Queue stream, void* token) {
  if (!collective_.queue.is_host()) ready_.hold_back(stream);
  stage_ = Stage::launching;
  call_nccl(communicator, cuda_stream(stream), token);
}

void NcclOperation::call_nccl(ncclComm_t communicator, cudaStream_t stream, void* token) const {
  const Collective& c = collective_;
  const auto in_count = static_cast<std::size_t>(c.in.count.value);
  const auto out_count = static_cast<std::size_t>(c.out.count.value);
  if (c.kind == CollectiveKind::barrier) {
    LOCKSTEP_NCCL_CHECK(ncclAllReduce(token, token, 1, ncclInt32, ncclSum, communicator, stream), communicator);
    return;
  }
  if (in_count == 0) return;
  const ncclDataType_t type = nccl_type(c.in.dtype);
  const ncclRedOp_t op = nccl_op(c.op);
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      LOCKSTEP_NCCL_CHECK(ncclAllReduce(c.in.data, c.out.data, out_count, type, op, communicator, stream),
                          communicator);
      break;
    case CollectiveKind::broadcast:
      LOCKSTEP_NCCL_CHECK(ncclBroadcast(c.in.data, c.out.data, out_count, type, c.root.value, communicator, stream),
                          communicator);
      break;
    case CollectiveKind::all_gather:
      LOCKSTEP_NCCL_CHECK(ncclAllGather(c.in.data, c.out.data, in_count, type, communicator, stream), communicator);
      break;
    case CollectiveKind::reduce_scatter:
      LOCKSTEP_NCCL_CHECK(ncclReduceScatter(c.in.data, c.out.data, out_count, type, op, communicator, stream),
                          communicator);
      break;
    case CollectiveKind::reduce:
      LOCKSTEP_NCCL_CHECK(ncclReduce(c.in.data, c.out.data, in_count, type, op, c.root.value, communicator, stream),
                          communicator);
      break;
    case CollectiveKind::all_to_all: all_to_all(communicator, stream, type); break;
    case CollectiveKind::reduce_then:  // refused
    case CollectiveKind::barrier: break;
  }
}

/// A send and a receive for each rank, its own part included. The group is closed even if one of them is refused: an
/// open one would swallow every later call of this thread.
void NcclOperation::all_to_all(ncclComm_t communicator, cudaStream_t stream, ncclDataType_t type) const {
  const int ranks = owner_->size();
  const Count part = part_of(collective_, ranks);
  const auto count = static_cast<std::size_t>(part.value);
  ncclResult_t result = ncclSuccess;
  const auto going = [&] { return result == ncclSuccess || result == ncclInProgress; };
  LOCKSTEP_NCCL_CHECK(ncclGroupStart(), communicator);
  for (int peer = 0; peer < ranks && going(); ++peer) {
    const Count at{peer * part.value};
    result = ncclSend(slice(collective_.in, at, part).data, count, type, peer, communicator, stream);
    if (going()) result = ncclRecv(slice(collective_.out, at, part).data, count, type, peer, communicator, stream);
  }
  const ncclResult_t closed = ncclGroupEnd();
  LOCKSTEP_NCCL_CHECK(result, communicator);
  LOCKSTEP_NCCL_CHECK(closed, communicator);
}

void NcclOperation::mark_launched(Queue stream) {
  finished_.record(stream);
  stage_ = Stage::running;
}

bool NcclOperation::check_finished() {
  if (!finished_.reached()) return false;
  complete();
  return true;
}

bool NcclOperation::order_after(Queue queue) {
  owner_->launch_all();
  if (state() != State::pending || stage_ != Stage::running) return false;
  finished_.hold_back(queue);
  return true;
}

ErrorContext NcclOperation::context() const {
  return {.operation = std::string(name(collective_.kind)),
          .label = label_,
          .rank = owner_->rank().value,
          .bytes = std::max(collective_.in.bytes(), collective_.out.bytes()).value};
}

Span NcclOperation::span() const {
  return {.track = "communication",
          .name = label_.empty() ? name(collective_.kind) : std::string_view(label_),
          .begin = submitted_,
          .end = Clock::now(),
          .bytes = std::max(collective_.in.bytes(), collective_.out.bytes())};
}

}  // namespace lockstep::backends
