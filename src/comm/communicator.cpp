// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/communicator.hpp"

#include <algorithm>
#include <string>

#include "base/origin_process.hpp"
#include "comm/back_end.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

template <typename T>
bool has(std::span<const T> all, T wanted) {
  return all.empty() || std::find(all.begin(), all.end(), wanted) != all.end();
}

/// Returns what the back end cannot do for the collective, or an empty string.
std::string missing_capability(const BackEnd& back_end, const Collective& c) {
  const Capabilities& can = back_end.capabilities();
  if (c.kind == CollectiveKind::barrier) return {};
  for (const MemoryKind kind : {c.in.kind, c.out.kind})
    if (!(kind == MemoryKind::device ? can.device_memory : can.host_memory))
      return "does not take buffers in " + std::string(name(kind)) + " memory";
  if (!has(can.dtypes, c.out.dtype)) return "does not take elements of " + std::string(name(c.out.dtype));
  if (is_scan(c.kind) && !can.no_scan.empty()) return "does no scans: " + std::string(can.no_scan);
  if (!is_reduction(c.kind)) return {};
  if (c.op == ReduceOp::average && !can.no_average.empty()) return "does no averages: " + std::string(can.no_average);
  if (!has(can.ops, c.op)) return "has no operator " + std::string(name(c.op));
  const std::string_view no_leaves = back_end.why_no_leaves(c.out.kind);
  if (c.leaves.shares.total() > 0 && !no_leaves.empty())
    return "adds up no leaves of a tree: " + std::string(no_leaves);
  return {};
}

}  // namespace

void check(const BackEnd& back_end, Collective& collective) {
  const bool collects = collective.kind == CollectiveKind::reduce || collective.kind == CollectiveKind::gather;
  if (collects && back_end.rank() != collective.root)
    collective.out = {nullptr, {0}, collective.in.dtype, collective.in.kind};
  if (collective.kind == CollectiveKind::scatter && back_end.rank() != collective.root)
    collective.in = {nullptr, {0}, collective.out.dtype, collective.out.kind};
  if (collective.kind == CollectiveKind::broadcast) collective.in = collective.out;
  const Buffer& out = collective.out;
  if (collective.kind == CollectiveKind::recv) collective.in = {nullptr, {0}, out.dtype, out.kind};
  const ConstBuffer& in = collective.in;
  if (collective.kind == CollectiveKind::send) collective.out = {nullptr, {0}, in.dtype, in.kind};
  const std::string wrong = complaint(collective, back_end.rank(), back_end.size());
  if (!wrong.empty()) throw back_end.refusal(ErrorCode::invalid_argument, wrong, collective);
  const std::string missing = missing_capability(back_end, collective);
  if (!missing.empty())
    throw back_end.refusal(ErrorCode::unsupported, std::string(back_end.capabilities().backend) + ' ' + missing,
                           collective);
  back_end.check_queue(collective, collective.queue);
}

BackEnd& back_end_of(const Communicator& communicator) { return *communicator.back_end_; }

Communicator::Communicator(std::unique_ptr<BackEnd> back_end)
    : back_end_(std::move(back_end)), rank_(back_end_->rank()), size_(back_end_->size()) {}

Communicator::~Communicator() {
  if (back_end_->origin().is_here()) {
    back_end_->close_if_wanted();
  } else {
    keep_in_child(std::move(back_end_));
  }
}

const Capabilities& Communicator::capabilities() const { return back_end_->capabilities(); }
Allocation Communicator::allocate(Bytes bytes) { return back_end_->allocate(bytes); }
void Communicator::abort(std::string_view why) noexcept {
  if (back_end_->origin().is_here()) back_end_->abort(why);
}
void Communicator::close() {
  back_end_->check_process("close");
  back_end_->close();
}

Work Communicator::all_reduce(ConstBuffer in, Buffer out, ReduceOp op, Queue queue, std::string_view label) {
  return start({CollectiveKind::all_reduce, in, out, op, {0}, queue, label});
}

Work Communicator::all_reduce(ConstBuffer in, Buffer out, ReduceOp op, const Leaves& leaves, Queue queue,
                              std::string_view label) {
  return start({.kind = CollectiveKind::all_reduce,
                .in = in,
                .out = out,
                .op = op,
                .queue = queue,
                .label = label,
                .leaves = leaves});
}

Work Communicator::broadcast(Buffer buffer, Rank root, Queue queue, std::string_view label) {
  return start({CollectiveKind::broadcast, buffer, buffer, ReduceOp::sum, root, queue, label});
}

Work Communicator::all_gather(ConstBuffer in, Buffer out, Queue queue, std::string_view label) {
  return start({CollectiveKind::all_gather, in, out, ReduceOp::sum, {0}, queue, label});
}

Work Communicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op, Queue queue, std::string_view label) {
  return start({CollectiveKind::reduce_scatter, in, out, op, {0}, queue, label});
}

Work Communicator::reduce(ConstBuffer in, Buffer out, ReduceOp op, Rank root, Queue queue, std::string_view label) {
  return start({CollectiveKind::reduce, in, out, op, root, queue, label});
}

Work Communicator::all_to_all(ConstBuffer in, Buffer out, Queue queue, std::string_view label) {
  return start({CollectiveKind::all_to_all, in, out, ReduceOp::sum, {0}, queue, label});
}

Work Communicator::gather(ConstBuffer in, Buffer out, Rank root, Queue queue, std::string_view label) {
  return start({CollectiveKind::gather, in, out, ReduceOp::sum, root, queue, label});
}

Work Communicator::scatter(ConstBuffer in, Buffer out, Rank root, Queue queue, std::string_view label) {
  return start({CollectiveKind::scatter, in, out, ReduceOp::sum, root, queue, label});
}

Work Communicator::all_gather_v(ConstBuffer in, Buffer out, std::span<const Count> counts, Queue queue,
                                std::string_view label) {
  return start(
      {.kind = CollectiveKind::all_gather_v, .in = in, .out = out, .queue = queue, .label = label, .parts = counts});
}

Work Communicator::reduce_scatter_v(ConstBuffer in, Buffer out, std::span<const Count> counts, ReduceOp op, Queue queue,
                                    std::string_view label) {
  return start({.kind = CollectiveKind::reduce_scatter_v,
                .in = in,
                .out = out,
                .op = op,
                .queue = queue,
                .label = label,
                .parts = counts});
}

Work Communicator::all_to_all_v(ConstBuffer in, std::span<const Count> sent, Buffer out,
                                std::span<const Count> received, Queue queue, std::string_view label) {
  return start({.kind = CollectiveKind::all_to_all_v,
                .in = in,
                .out = out,
                .queue = queue,
                .label = label,
                .parts = sent,
                .received = received});
}

Work Communicator::scan(ConstBuffer in, Buffer out, ReduceOp op, Queue queue, std::string_view label) {
  return start({CollectiveKind::scan, in, out, op, {0}, queue, label});
}

Work Communicator::exclusive_scan(ConstBuffer in, Buffer out, ReduceOp op, Queue queue, std::string_view label) {
  return start({CollectiveKind::exclusive_scan, in, out, op, {0}, queue, label});
}

Work Communicator::barrier(std::string_view label) {
  return start({CollectiveKind::barrier, {}, {}, ReduceOp::sum, {0}, Queue::host(), label});
}

Work Communicator::send(ConstBuffer in, Rank to, Queue queue, std::string_view label) {
  return start({CollectiveKind::send, in, {}, ReduceOp::sum, to, queue, label});
}

Work Communicator::recv(Buffer out, Rank from, Queue queue, std::string_view label) {
  return start({CollectiveKind::recv, {}, out, ReduceOp::sum, from, queue, label});
}

void Communicator::send_recv(ConstBuffer in, std::optional<Rank> to, Buffer out, std::optional<Rank> from, Queue queue,
                             std::string_view label) {
  std::vector<Collective> messages;
  if (from) messages.push_back({CollectiveKind::recv, {}, out, ReduceOp::sum, *from, queue, label});
  if (to) messages.push_back({CollectiveKind::send, in, {}, ReduceOp::sum, *to, queue, label});
  for (Work& work : group(messages)) work.wait();
}

Work Communicator::start(Collective collective) {
  check(*back_end_, collective);
  return back_end_->submit(collective);
}

std::vector<Work> Communicator::group(std::span<const Collective> members) {
  std::vector<Collective> checked(members.begin(), members.end());
  for (Collective& member : checked) check(*back_end_, member);
  return back_end_->submit_group(checked);
}

Prepared Communicator::prepare(Collective collective) {
  collective.queue = Queue::host();
  check(*back_end_, collective);
  return Prepared(back_end_->make_preparation(collective));
}

Prepared Communicator::prepare_all_reduce(ConstBuffer in, Buffer out, ReduceOp op, std::string_view label) {
  return prepare({CollectiveKind::all_reduce, in, out, op, {0}, Queue::host(), label});
}

std::vector<int> ranks_unlike_zero(Communicator& communicator, std::uint64_t number, std::string_view label) {
  const auto mine = static_cast<std::int64_t>(number);
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(all), Queue::host(), label).wait();
  std::vector<int> others;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0]) others.push_back(static_cast<int>(rank));
  return others;
}

}  // namespace lockstep
