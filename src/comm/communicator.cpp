// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep {

Work Communicator::all_reduce(ConstBuffer in, Buffer out, ReduceOp op, Queue queue, std::string_view label) {
  return start({CollectiveKind::all_reduce, in, out, op, {0}, queue, label});
}

Work Communicator::reduce_then(ConstBuffer in, Buffer out, ReduceOp op, const SliceFunction& function, Queue queue,
                               std::string_view label) {
  return start({CollectiveKind::reduce_then, in, out, op, {0}, queue, label, &function});
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

Work Communicator::barrier(std::string_view label) {
  return start({CollectiveKind::barrier, {}, {}, ReduceOp::sum, {0}, Queue::host(), label});
}

Work Communicator::send(ConstBuffer in, Rank to, Queue queue, std::string_view label) {
  return start({CollectiveKind::send, in, {}, ReduceOp::sum, to, queue, label});
}

Work Communicator::recv(Buffer out, Rank from, Queue queue, std::string_view label) {
  return start({CollectiveKind::recv, {}, out, ReduceOp::sum, from, queue, label});
}

Allocation Communicator::allocate(Bytes bytes) { return allocate_host(bytes); }

namespace {

/// The caller's part of the larger buffer in all_gather and reduce_scatter; the buffer itself otherwise.
ConstBuffer own_part(const ConstBuffer& whole, const ConstBuffer& part, Rank rank) {
  return slice(whole, {part.count.value * rank.value}, part.count);
}

bool overlap(const ConstBuffer& a, const ConstBuffer& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.data);
  const auto* b_begin = static_cast<const std::byte*>(b.data);
  return a_begin < b_begin + b.bytes().value && b_begin < a_begin + a.bytes().value;
}

bool counts_fit(const Collective& c, Rank rank, int size) {
  const std::int64_t in = c.in.count.value;
  const std::int64_t out = c.out.count.value;
  switch (c.kind) {
    case CollectiveKind::all_gather: return in * size == out;
    case CollectiveKind::reduce_scatter: return in == out * size;
    case CollectiveKind::reduce: return rank != c.root || in == out;
    case CollectiveKind::send:
    case CollectiveKind::recv: return true;
    case CollectiveKind::all_to_all: return in == out && in % size == 0;
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::barrier:
    case CollectiveKind::reduce_then: return in == out;
  }
  return false;
}

/// What is wrong with where the buffers lie, or an empty text.
std::string overlap_complaint(const Collective& c, Rank rank) {
  if (!overlap(c.in, c.out)) return {};
  if (c.kind == CollectiveKind::all_to_all) return "in and out overlap; an all_to_all cannot be done in place";
  const ConstBuffer out = c.out;
  const ConstBuffer in_place = c.kind == CollectiveKind::all_gather ? own_part(out, c.in, rank) : out;
  const ConstBuffer expected = c.kind == CollectiveKind::reduce_scatter ? own_part(c.in, out, rank) : c.in;
  return in_place.data == expected.data ? "" : "in and out overlap without being the same memory";
}

/// Why a request can never work, or an empty text.
std::string complaint(const Collective& c, Rank rank, int size) {
  const auto n = [](const ConstBuffer& b) { return std::to_string(b.count.value); };
  if (c.in.count.value < 0 || c.out.count.value < 0)
    return "the count is negative: in " + n(c.in) + ", out " + n(c.out);
  if (c.in.dtype != c.out.dtype)
    return "dtypes differ: in " + std::string(name(c.in.dtype)) + ", out " + std::string(name(c.out.dtype));
  if ((c.in.data == nullptr && c.in.count.value > 0) || (c.out.data == nullptr && c.out.count.value > 0))
    return "a buffer is null";
  if (c.root.value < 0 || c.root.value >= size) {
    return (is_message(c.kind) ? "rank " : "root ") + std::to_string(c.root.value) + " is not one of the " +
           std::to_string(size) + " ranks";
  }
  if (!counts_fit(c, rank, size)) {
    return "counts do not fit for " + std::to_string(size) + " ranks: in " + n(c.in) + ", out " + n(c.out);
  }
  if (c.kind == CollectiveKind::reduce_then && !*c.function) return "the function is empty";
  return overlap_complaint(c, rank);
}

}  // namespace

Error Communicator::refusal(ErrorCode code, const std::string& why, const Collective& collective) const {
  return {code,
          why,
          {.operation = std::string(name(collective.kind)),
           .label = std::string(collective.label),
           .rank = rank_.value,
           .bytes = std::max(collective.in.bytes(), collective.out.bytes()).value}};
}

void Communicator::check_queue(const Collective& collective, Queue queue) const {
  if (queue.is_host()) return;
  const Capabilities& can = capabilities();
  if (can.device_memory) return;
  throw refusal(ErrorCode::unsupported,
                std::string(can.backend) +
                    " works on the host, which does not wait for a stream: synchronise the stream before, and pass "
                    "Queue::host()",
                collective);
}

/// Also clears what this rank passes and nobody looks at: it must not reach a back end.
void Communicator::check(Collective& collective) const {
  if (collective.kind == CollectiveKind::reduce && rank_ != collective.root)
    collective.out = {nullptr, {0}, collective.in.dtype, collective.in.kind};
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
  if (collective.kind == CollectiveKind::reduce_then && !can.no_reduce_then.empty()) {
    throw refusal(ErrorCode::unsupported,
                  std::string(can.backend) + " does no reduce_then: " + std::string(can.no_reduce_then), collective);
  }
}

Work Communicator::start(Collective collective) {
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

/// For a back end that keeps nothing from one submission to the next.
class Resubmission final : public Preparation {
 public:
  using Submit = std::function<Work(const Collective&)>;

  Resubmission(const Collective& collective, Submit submit)
      : collective_(collective), label_(collective.label), submit_(std::move(submit)) {
    collective_.label = label_;
    if (collective.function == nullptr) return;
    function_ = *collective.function;
    collective_.function = &function_;
  }
  Work& start(Queue queue) override {
    collective_.queue = queue;
    work_.reset();
    return work_.emplace(submit_(collective_));
  }

 private:
  Collective collective_;
  std::string label_;
  SliceFunction function_;
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

}  // namespace lockstep
