// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/nccl/message_group.hpp"
#include "backends/nccl/nccl_communicator.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "comm/collective_parts.hpp"
#include "platform/gpu/cuda.hpp"
#include "platform/node_memory/flight_recorder.hpp"

namespace lockstep::backends {
namespace {

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::product: return ncclProd;
    case ReduceOp::average: break;
  }
  throw Error(ErrorCode::unsupported, "NCCL has no operator for " + std::string(name(op)));
}

}  // namespace

void NcclOperation::submit(const Collective& collective, void* tree_order_scratch, bool is_captured,
                           FlightRecorder* recorder) {
  restart();
  const Bytes bytes = std::max(collective.in.bytes(), collective.out.bytes());
  record_.reset();
  if (recorder != nullptr) record_ = recorder->begin(collective.kind, collective.label, bytes);
  collective_ = collective;
  counts_.keep(collective_);
  signature_ = signature_of(collective);
  label_.assign(collective.label);
  collective_.label = label_;
  tree_order_.reset();
  if (tree_order_scratch != nullptr && collective.kind == CollectiveKind::all_reduce) {
    tree_order_.emplace(collective, owner_->rank(), owner_->size(), tree_order_scratch);
  }
  stage_ = Stage::queued;
  launch_size_ = 1;
  is_captured_ = is_captured;
  submitted_ = Clock::now();
  if (!collective.queue.is_host()) ready_.record(collective.queue);
}

void NcclOperation::record_end(FlightRecorder* recorder) {
  if (recorder != nullptr && record_) recorder->end(*std::exchange(record_, std::nullopt));
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
      LOCKSTEP_NCCL_CHECK(AllReduce(c.in.data, c.out.data, out_count, type, op, communicator, stream), communicator);
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
    case CollectiveKind::gather: gather(communicator, stream); break;
    case CollectiveKind::scatter: scatter(communicator, stream); break;
    case CollectiveKind::all_to_all: all_to_all(communicator, stream); break;
    case CollectiveKind::all_gather_v: all_gather_v(communicator, stream); break;
    case CollectiveKind::reduce_scatter_v: reduce_scatter_v(communicator, stream); break;
    case CollectiveKind::all_to_all_v: all_to_all_v(communicator, stream); break;
    case CollectiveKind::send:  // handled by message()
    case CollectiveKind::recv:
    case CollectiveKind::barrier: break;
  }
}

/// Makes each rank send its part to the root, unless the part is already in place.
void NcclOperation::gather(ncclComm_t communicator, cudaStream_t stream) const {
  const Count part = collective_.in.count;
  const Rank me = owner_->rank();
  const bool is_root = me == collective_.root;
  const auto place = [&](int rank) { return slice(collective_.out, rank * part, part); };
  const bool in_place = is_root && place(me.value).data == collective_.in.data;
  MessageGroup group(communicator, stream);
  if (!in_place) group.send(collective_.in, collective_.root.value);
  for (int peer = 0; is_root && peer < owner_->size(); ++peer)
    if (!in_place || peer != me.value) group.receive(place(peer), peer);
  group.close();
}

void NcclOperation::scatter(ncclComm_t communicator, cudaStream_t stream) const {
  const Count part = collective_.out.count;
  const Rank me = owner_->rank();
  const bool is_root = me == collective_.root;
  const auto place = [&](int rank) { return slice(collective_.in, rank * part, part); };
  const bool in_place = is_root && place(me.value).data == collective_.out.data;
  MessageGroup group(communicator, stream);
  for (int peer = 0; is_root && peer < owner_->size(); ++peer)
    if (!in_place || peer != me.value) group.send(place(peer), peer);
  if (!in_place) group.receive(collective_.out, collective_.root.value);
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

/// Makes a broadcast for each part, in one group, because NCCL has no such call.
void NcclOperation::all_gather_v(ncclComm_t communicator, cudaStream_t stream) const {
  const Collective& c = collective_;
  CallGroup group(communicator);
  Count begin;
  for (int rank = 0; rank < owner_->size(); ++rank) {
    const Buffer part = slice(c.out, begin, c.parts[static_cast<std::size_t>(rank)]);
    begin += part.count;
    if (part.count == 0 || !group.is_good()) continue;
    const void* from = rank == owner_->rank().value ? c.in.data : part.data;
    group.add(nccl().Broadcast(from, part.data, static_cast<std::size_t>(part.count.value), nccl_type(c.in.dtype), rank,
                               communicator, stream),
              "ncclBroadcast");
  }
  group.close();
}

/// Makes a reduction to each rank, in one group.
void NcclOperation::reduce_scatter_v(ncclComm_t communicator, cudaStream_t stream) const {
  const Collective& c = collective_;
  CallGroup group(communicator);
  Count begin;
  for (int rank = 0; rank < owner_->size(); ++rank) {
    const ConstBuffer part = slice(c.in, begin, c.parts[static_cast<std::size_t>(rank)]);
    begin += part.count;
    if (part.count == 0 || !group.is_good()) continue;
    void* to = rank == owner_->rank().value ? c.out.data : nullptr;
    group.add(nccl().Reduce(part.data, to, static_cast<std::size_t>(part.count.value), nccl_type(c.in.dtype),
                            nccl_op(c.op), rank, communicator, stream),
              "ncclReduce");
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
  return {.operation = std::string(name(collective_.kind)),
          .label = label_,
          .rank = owner_->rank().value,
          .bytes = std::max(collective_.in.bytes(), collective_.out.bytes()).value};
}

std::string NcclOperation::description() const {
  return std::string(name(collective_.kind)) + (label_.empty() ? "" : " '" + label_ + "'") + " on rank " +
         std::to_string(owner_->rank().value);
}

Span NcclOperation::span() const {
  return {.track = "communication",
          .name = label_.empty() ? name(collective_.kind) : std::string_view(label_),
          .begin = submitted_,
          .end = Clock::now(),
          .bytes = std::max(collective_.in.bytes(), collective_.out.bytes())};
}

}  // namespace lockstep::backends
