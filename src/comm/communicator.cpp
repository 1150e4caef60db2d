// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "comm/argument_check.hpp"
#include "comm/kept_counts.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {

Communicator::~Communicator() {
  for (const auto& call : when_destroyed_) call();
}

void Communicator::close_if_wanted() noexcept {
  if (std::uncaught_exceptions() > 0 || !may_close_ || !may_close_()) return;
  try {
    close();
  } catch (const std::exception&) {  // the communicator is destroyed without close(), so the other ranks fail
  }
}

Work Communicator::all_reduce(ConstBuffer in, Buffer out, ReduceOp op, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::all_reduce, in, out, op, {0}, queue, label});
}

Work Communicator::all_reduce(ConstBuffer in, Buffer out, ReduceOp op, const Leaves& leaves, Queue queue,
                              std::string_view label) {
  return submit_checked({.kind = CollectiveKind::all_reduce,
                         .in = in,
                         .out = out,
                         .op = op,
                         .queue = queue,
                         .label = label,
                         .leaves = leaves});
}

Work Communicator::broadcast(Buffer buffer, Rank root, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::broadcast, buffer, buffer, ReduceOp::sum, root, queue, label});
}

Work Communicator::all_gather(ConstBuffer in, Buffer out, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::all_gather, in, out, ReduceOp::sum, {0}, queue, label});
}

Work Communicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::reduce_scatter, in, out, op, {0}, queue, label});
}

Work Communicator::reduce(ConstBuffer in, Buffer out, ReduceOp op, Rank root, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::reduce, in, out, op, root, queue, label});
}

Work Communicator::all_to_all(ConstBuffer in, Buffer out, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::all_to_all, in, out, ReduceOp::sum, {0}, queue, label});
}

Work Communicator::gather(ConstBuffer in, Buffer out, Rank root, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::gather, in, out, ReduceOp::sum, root, queue, label});
}

Work Communicator::scatter(ConstBuffer in, Buffer out, Rank root, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::scatter, in, out, ReduceOp::sum, root, queue, label});
}

Work Communicator::all_gather_v(ConstBuffer in, Buffer out, std::span<const Count> counts, Queue queue,
                                std::string_view label) {
  return submit_checked(
      {.kind = CollectiveKind::all_gather_v, .in = in, .out = out, .queue = queue, .label = label, .parts = counts});
}

Work Communicator::reduce_scatter_v(ConstBuffer in, Buffer out, std::span<const Count> counts, ReduceOp op, Queue queue,
                                    std::string_view label) {
  return submit_checked({.kind = CollectiveKind::reduce_scatter_v,
                         .in = in,
                         .out = out,
                         .op = op,
                         .queue = queue,
                         .label = label,
                         .parts = counts});
}

Work Communicator::all_to_all_v(ConstBuffer in, std::span<const Count> sent, Buffer out,
                                std::span<const Count> received, Queue queue, std::string_view label) {
  return submit_checked({.kind = CollectiveKind::all_to_all_v,
                         .in = in,
                         .out = out,
                         .queue = queue,
                         .label = label,
                         .parts = sent,
                         .received = received});
}

Work Communicator::barrier(std::string_view label) {
  return submit_checked({CollectiveKind::barrier, {}, {}, ReduceOp::sum, {0}, Queue::host(), label});
}

Work Communicator::send(ConstBuffer in, Rank to, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::send, in, {}, ReduceOp::sum, to, queue, label});
}

Work Communicator::recv(Buffer out, Rank from, Queue queue, std::string_view label) {
  return submit_checked({CollectiveKind::recv, {}, out, ReduceOp::sum, from, queue, label});
}

Allocation Communicator::allocate(Bytes bytes) { return allocate_host(bytes); }

namespace {

std::string this_host() {
  std::array<char, 256> text{};
  return gethostname(text.data(), text.size() - 1) == 0 ? text.data() : "";
}

}  // namespace

Error Communicator::refusal(ErrorCode code, const std::string& why, const Collective& collective) const {
  return {code,
          why,
          {.operation = std::string(name(collective.kind)),
           .label = std::string(collective.label),
           .rank = rank_.value,
           .host = this_host(),
           .bytes = std::max(collective.in.bytes(), collective.out.bytes()).value}};
}

void Communicator::check_queue(const Collective& collective, Queue queue) const {
  if (queue.is_host()) return;
  const Capabilities& can = capabilities();
  if (can.device_memory) return;
  throw refusal(ErrorCode::unsupported,
                std::string(can.backend) +
                    " works on the host, which does not wait for a stream: synchronize the stream before, and pass "
                    "Queue::host()",
                collective);
}

/// Checks the arguments and clears those that this rank passes without effect, so that they do not reach a back end.
void Communicator::check(Collective& collective) const {
  const bool collects = collective.kind == CollectiveKind::reduce || collective.kind == CollectiveKind::gather;
  if (collects && rank_ != collective.root) collective.out = {nullptr, {0}, collective.in.dtype, collective.in.kind};
  if (collective.kind == CollectiveKind::scatter && rank_ != collective.root)
    collective.in = {nullptr, {0}, collective.out.dtype, collective.out.kind};
  if (collective.kind == CollectiveKind::broadcast) collective.in = collective.out;
  const Buffer& out = collective.out;
  if (collective.kind == CollectiveKind::recv) collective.in = {nullptr, {0}, out.dtype, out.kind};
  const ConstBuffer& in = collective.in;
  if (collective.kind == CollectiveKind::send) collective.out = {nullptr, {0}, in.dtype, in.kind};
  const std::string wrong = complaint(collective, rank_, size_);
  if (!wrong.empty()) throw refusal(ErrorCode::invalid_argument, wrong, collective);
  const Capabilities& can = capabilities();
  for (const MemoryKind kind : {collective.in.kind, collective.out.kind}) {
    const bool taken = kind == MemoryKind::device ? can.device_memory : can.host_memory;
    if (collective.kind != CollectiveKind::barrier && !taken) {
      throw refusal(ErrorCode::unsupported,
                    std::string(can.backend) + " does not take buffers in " + std::string(name(kind)) + " memory",
                    collective);
    }
  }
  check_queue(collective, collective.queue);
  if (is_reduction(collective.kind) && collective.op == ReduceOp::average && !can.no_average.empty()) {
    throw refusal(ErrorCode::unsupported,
                  std::string(can.backend) + " does no averages: " + std::string(can.no_average), collective);
  }
  if (collective.leaves.total > 0 && !can.no_leaves.empty()) {
    throw refusal(ErrorCode::unsupported,
                  std::string(can.backend) + " adds up no leaves of a tree: " + std::string(can.no_leaves), collective);
  }
}

Work Communicator::start(Collective collective) {
  check(collective);
  return submit(collective);
}

/// Takes the collective by reference, because a copy of the structure costs as much as all the checks.
Work Communicator::submit_checked(Collective&& collective) {
  check(collective);
  return submit(collective);
}

std::vector<Work> Communicator::group(std::span<const Collective> members) {
  std::vector<Collective> checked(members.begin(), members.end());
  for (Collective& member : checked) check(member);
  return submit_group(checked);
}

std::vector<Work> Communicator::submit_group(std::span<const Collective> members) {
  std::vector<Work> works;
  works.reserve(members.size());
  for (const Collective& member : members) works.push_back(submit(member));
  return works;
}

namespace {

/// The preparation of a back end that keeps nothing between submissions: every start submits the operation again.
class Resubmission final : public Preparation {
 public:
  using Submit = std::function<Work(const Collective&)>;

  Resubmission(const Collective& collective, Submit submit)
      : collective_(collective), label_(collective.label), submit_(std::move(submit)) {
    collective_.label = label_;
    counts_.keep(collective_);
  }
  Work& start(Queue queue) override {
    collective_.queue = queue;
    work_.reset();
    return work_.emplace(submit_(collective_));
  }

 private:
  Collective collective_;
  std::string label_;
  KeptCounts counts_;
  Submit submit_;
  std::optional<Work> work_;
};

}  // namespace

std::unique_ptr<Preparation> Communicator::make_preparation(const Collective& collective) {
  return std::make_unique<Resubmission>(collective, [this](const Collective& again) {
    check_queue(again, again.queue);
    return submit(again);
  });
}

Prepared Communicator::prepare(Collective collective) {
  collective.queue = Queue::host();
  check(collective);
  return Prepared(make_preparation(collective));
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
