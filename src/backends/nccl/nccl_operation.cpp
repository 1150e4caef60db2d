// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "backends/nccl/nccl_communicator.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {
namespace {

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::product: return ncclProd;
    default: break;
  }
  throw Error(ErrorCode::unsupported, "NCCL has no operator for " + std::string(name(op)));
}

}  // namespace

NcclOperation::NcclOperation(NcclCommunicator& owner) : owner_(&owner) { set_rank(owner.rank()); }

void NcclOperation::submit(const Collective& collective, std::optional<TreeOrderAllReduce> tree_order, bool is_captured,
                           FlightRecorder* recorder) {
  name_after(collective);
  restart_at(Clock::now(), recorder);
  collective_ = collective;
  counts_.keep(collective_);
  signature_ = signature_of(collective);
  collective_.label = label();
  tree_order_ = std::move(tree_order);
  stage_ = Stage::queued;
  launch_size_ = 1;
  is_captured_ = is_captured;
  if (!collective.queue.is_host()) ready_.record(collective.queue);
}

void NcclOperation::launch_next_part(ncclComm_t communicator, Queue stream, void* token) {
  if (stage_ == Stage::queued && !collective_.queue.is_host()) ready_.hold_back(stream);
  stage_ = Stage::launching;
  if (!tree_order_) {
    call_nccl(communicator, cuda_stream(stream), token);
  } else if (!tree_order_->all_launched()) {
    tree_order_->launch_next_part(communicator, cuda_stream(stream));
  }
}

bool NcclOperation::all_launched() const {
  return stage_ != Stage::queued && (!tree_order_ || tree_order_->all_launched());
}

void NcclOperation::call_nccl(ncclComm_t communicator, cudaStream_t stream, void* token) const {
  const Collective& c = collective_;
  const auto in_count = static_cast<std::size_t>(c.in.count.value);
  const auto out_count = static_cast<std::size_t>(c.out.count.value);
  if (c.kind == CollectiveKind::barrier) {
    LOCKSTEP_NCCL_CHECK(AllReduce(token, token, 1, ncclInt32, ncclSum, communicator, stream), communicator);
    return;
  }
  if (is_message(c.kind)) return message(communicator, stream);
  if (part_of(c, owner_->size()).value == 0 && c.kind != CollectiveKind::all_to_all_v) return;
  const ncclDataType_t type = nccl_type(c.in.dtype);
  const ncclRedOp_t op = nccl_op(c.op);
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      if (const NcclCallConfig* config = owner_->all_reduce_config(); config != nullptr) {
        LOCKSTEP_NCCL_CHECK(all_reduce_by(c.in.data, c.out.data, out_count, type, op, communicator, stream, config),
                            communicator);
      } else {
        LOCKSTEP_NCCL_CHECK(AllReduce(c.in.data, c.out.data, out_count, type, op, communicator, stream), communicator);
      }
      break;
    case CollectiveKind::broadcast:
      LOCKSTEP_NCCL_CHECK(Broadcast(c.in.data, c.out.data, out_count, type, c.root.value, communicator, stream),
                          communicator);
      break;
    case CollectiveKind::all_gather:
      LOCKSTEP_NCCL_CHECK(AllGather(c.in.data, c.out.data, in_count, type, communicator, stream), communicator);
      break;
    case CollectiveKind::reduce_scatter:
      LOCKSTEP_NCCL_CHECK(ReduceScatter(c.in.data, c.out.data, out_count, type, op, communicator, stream),
                          communicator);
      break;
    case CollectiveKind::reduce:
      LOCKSTEP_NCCL_CHECK(Reduce(c.in.data, c.out.data, in_count, type, op, c.root.value, communicator, stream),
                          communicator);
      break;
    default: call_group(communicator, stream);
  }
}

/// Makes a group of calls for what NCCL has no single one.
void NcclOperation::call_group(ncclComm_t communicator, cudaStream_t stream) const {
  switch (collective_.kind) {
    case CollectiveKind::gather:
    case CollectiveKind::scatter: return gather_or_scatter(communicator, stream);
    case CollectiveKind::all_to_all: return all_to_all(communicator, stream);
    case CollectiveKind::all_gather_v:
    case CollectiveKind::reduce_scatter_v: return by_part(communicator, stream);
    case CollectiveKind::all_to_all_v: return all_to_all_v(communicator, stream);
    default: return;
  }
}

/// Makes the root exchange its part with each rank, unless the part is already in place.
void NcclOperation::gather_or_scatter(ncclComm_t communicator, cudaStream_t stream) const {
  const auto& [in, out] = std::tie(collective_.in, collective_.out);
  const bool gathers = collective_.kind == CollectiveKind::gather;
  const Count part = gathers ? in.count : out.count;
  const int me = owner_->rank().value;
  const int root = collective_.root.value;
  const bool is_root = me == root;
  const bool in_place =
      is_root && (gathers ? slice(out, me * part, part).data == in.data : slice(in, me * part, part).data == out.data);
  MessageGroup group(communicator, stream);
  if (!in_place && gathers) group.send(in, root);
  for (int peer = 0; is_root && peer < owner_->size(); ++peer) {
    if (in_place && peer == me) continue;
    gathers ? group.receive(slice(out, peer * part, part), peer) : group.send(slice(in, peer * part, part), peer);
  }
  if (!in_place && !gathers) group.receive(out, root);
  group.close();
}

/// Makes a send and a receive for each rank, including this one.
void NcclOperation::all_to_all(ncclComm_t communicator, cudaStream_t stream) const {
  const Count part = part_of(collective_, owner_->size());
  MessageGroup group(communicator, stream);
  for (int peer = 0; peer < owner_->size(); ++peer) {
    const Count at = peer * part;
    group.send(slice(collective_.in, at, part), peer);
    group.receive(slice(collective_.out, at, part), peer);
  }
  group.close();
}

void NcclOperation::message(ncclComm_t communicator, cudaStream_t stream) const {
  MessageGroup group(communicator, stream);
  group.send(collective_.in, collective_.root.value);
  group.receive(collective_.out, collective_.root.value);
  group.close();
}

/// Makes a broadcast of each part, or a reduction to its rank, in one group, because NCCL has no such calls.
void NcclOperation::by_part(ncclComm_t communicator, cudaStream_t stream) const {
  const Collective& c = collective_;
  const ncclDataType_t type = nccl_type(c.in.dtype);
  CallGroup group(communicator);
  Count begin;
  for (int rank = 0; rank < owner_->size(); ++rank) {
    const Count part = c.parts[static_cast<std::size_t>(rank)];
    const auto count = static_cast<std::size_t>(part.value);
    const bool is_mine = rank == owner_->rank().value;
    const bool is_called = part > 0 && group.is_good();
    if (is_called && c.kind == CollectiveKind::all_gather_v) {
      void* const to = slice(c.out, begin, part).data;
      const void* const from = is_mine ? c.in.data : to;
      group.add(nccl().Broadcast(from, to, count, type, rank, communicator, stream), "ncclBroadcast");
    } else if (is_called) {
      const void* const from = slice(c.in, begin, part).data;
      void* const to = is_mine ? c.out.data : nullptr;
      group.add(nccl().Reduce(from, to, count, type, nccl_op(c.op), rank, communicator, stream), "ncclReduce");
    }
    begin += part;
  }
  group.close();
}

void NcclOperation::all_to_all_v(ncclComm_t communicator, cudaStream_t stream) const {
  const Collective& c = collective_;
  MessageGroup group(communicator, stream);
  Count sent;
  Count received;
  for (int peer = 0; peer < owner_->size(); ++peer) {
    const auto number = static_cast<std::size_t>(peer);
    group.send(slice(c.in, sent, c.parts[number]), peer);
    group.receive(slice(c.out, received, c.received[number]), peer);
    sent += c.parts[number];
    received += c.received[number];
  }
  group.close();
}

void NcclOperation::mark_launched(Queue stream) {
  finished_.record(stream);
  stage_ = Stage::running;
}

bool NcclOperation::check_finished() {
  if (is_captured_) {
    fail(std::make_exception_ptr(
        Error(ErrorCode::invalid_argument,
              "the operation is in a graph, so its Work cannot be waited for: order the captured stream after it by "
              "order_before(), and wait for the stream that the graph is launched on",
              context())));
    return true;
  }
  if (!finished_.reached()) return false;
  complete();
  return true;
}

bool NcclOperation::order_after(Queue queue) {
  if (is_captured_ && stage_ == Stage::running) {
    finished_.hold_back(queue);
    return true;
  }
  if (state() != State::pending) return false;  // the communicator may have been destroyed
  if (lockstep::is_captured(queue)) {
    throw Error(ErrorCode::invalid_argument,
                "a captured stream cannot be ordered after an operation that is not captured: wait for the operation "
                "before the capture begins",
                context());
  }
  owner_->launch_all();
  if (state() != State::pending || stage_ != Stage::running) return false;
  finished_.hold_back(queue);
  return true;
}

ErrorContext NcclOperation::context() const {
  ErrorContext context = identity();
  context.rank = owner_->rank().value;
  return context;
}

}  // namespace lockstep::backends
