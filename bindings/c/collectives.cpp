// SPDX-License-Identifier: Apache-2.0
#include "base/borders.hpp"
#include "bindings/c/handles.hpp"

namespace lockstep::bindings {
namespace {

/// What the arguments of a call say of all its buffers.
class Call {
 public:
  Call(const lockstep_group* group, const lockstep_call* call, int dtype = LOCKSTEP_FLOAT32)
      : known_(read(call, "lockstep_call")), kind_(memory_kind(known_.memory)), dtype_(static_cast<DType>(dtype)) {
    require(group, "group");
    state_ = group->state;
  }

  [[nodiscard]] int size() const { return state_->group->size(); }
  /// A buffer of `parts` times `count` elements. @throws Error{invalid_argument} if that is too many
  [[nodiscard]] Buffer buffer(const void* data, std::int64_t count, int parts = 1) const {
    const auto all = product(count, parts);
    if (!all) refuse(std::to_string(count) + " elements for each rank are more than memory can hold");
    return {const_cast<void*>(data), {*all}, dtype_, kind_};
  }
  /// The counts of all ranks.
  [[nodiscard]] std::vector<Count> counts(const std::int64_t* given, const char* what) const {
    require(given, what);
    std::vector<Count> all;
    for (int rank = 0; rank < size(); ++rank) all.push_back({given[rank]});
    return all;
  }
  /// A buffer of the parts of all ranks.
  [[nodiscard]] Buffer buffer(const void* data, const std::vector<Count>& parts) const {
    std::int64_t all = 0;
    for (const Count part : parts)
      if (__builtin_add_overflow(all, part.value, &all)) refuse("the counts are more than memory can hold");
    return buffer(data, all);
  }
  [[nodiscard]] Collective collective(CollectiveKind kind, const ConstBuffer& in, const Buffer& out,
                                      int op = LOCKSTEP_SUM, int root = 0) const {
    return {.kind = kind,
            .in = in,
            .out = out,
            .op = static_cast<ReduceOp>(op),
            .root = {root},
            .queue = known_.stream == nullptr ? Queue::host() : Queue::stream(known_.stream),
            .label = known_.label == nullptr ? std::string_view() : std::string_view(known_.label)};
  }
  /// Starts an operation, and waits for it unless the caller wants to.
  void run(const Collective& collective) const {
    std::optional<Work> work;
    {
      const auto turn = state_->group->take_turn();
      work.emplace(state_->communicator().start(collective));
    }
    if (known_.work != nullptr) {
      *known_.work = new lockstep_work{state_, std::move(*work)};
    } else {
      wait_in_turns(*state_, *work);
    }
  }
  [[nodiscard]] const std::shared_ptr<GroupState>& state() const { return state_; }

 private:
  lockstep_call known_;
  MemoryKind kind_;
  DType dtype_;
  std::shared_ptr<GroupState> state_;
};

GroupState* state_of(const lockstep_group* group) { return group == nullptr ? nullptr : group->state.get(); }

/// An operation whose two buffers have `count` elements.
int run_simple(CollectiveKind kind, const lockstep_group* group, const void* in, void* out, std::int64_t count,
               int dtype, int op, const lockstep_call* call, int root = 0) {
  return guarded(state_of(group), [&] {
    const Call c(group, call, dtype);
    c.run(c.collective(kind, c.buffer(in, count), c.buffer(out, count), op, root));
  });
}

/// An operation with a part of `count` elements for each rank in its input, its output, or both.
int run_of_parts(CollectiveKind kind, const lockstep_group* group, const void* in, void* out, std::int64_t count,
                 int dtype, int op, const lockstep_call* call, int root = 0) {
  return guarded(state_of(group), [&] {
    const Call c(group, call, dtype);
    const bool is_scattered = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter;
    const bool is_exchanged = kind == CollectiveKind::all_to_all;
    c.run(c.collective(kind, c.buffer(in, count, is_scattered || is_exchanged ? c.size() : 1),
                       c.buffer(out, count, is_scattered ? 1 : c.size()), op, root));
  });
}

}  // namespace
}  // namespace lockstep::bindings

using namespace lockstep;
using namespace lockstep::bindings;
using enum CollectiveKind;

int lockstep_wait(lockstep_work* work) {
  return guarded(work == nullptr ? nullptr : work->group.get(), [&] {
    const std::unique_ptr<lockstep_work> handle(work);
    if (handle != nullptr) wait_in_turns(*handle->group, handle->work);
  });
}

int lockstep_test(lockstep_work* work, int* done) {
  return guarded(nullptr, [&] {
    require(work, "work");
    require(done, "done");
    const auto turn = work->group->group->take_turn();
    *done = work->work.test() ? 1 : 0;
  });
}

int lockstep_all_reduce(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                        const lockstep_call* call) {
  return run_simple(all_reduce, group, in, out, count, dtype, op, call);
}

int lockstep_reduce(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op, int root,
                    const lockstep_call* call) {
  return run_simple(reduce, group, in, out, count, dtype, op, call, root);
}

int lockstep_broadcast(lockstep_group* group, void* buffer, int64_t count, int dtype, int root,
                       const lockstep_call* call) {
  return run_simple(broadcast, group, buffer, buffer, count, dtype, LOCKSTEP_SUM, call, root);
}

int lockstep_scan(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                  const lockstep_call* call) {
  return run_simple(scan, group, in, out, count, dtype, op, call);
}

int lockstep_exclusive_scan(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                            const lockstep_call* call) {
  return run_simple(exclusive_scan, group, in, out, count, dtype, op, call);
}

int lockstep_all_gather(lockstep_group* group, const void* in, void* out, int64_t count, int dtype,
                        const lockstep_call* call) {
  return run_of_parts(all_gather, group, in, out, count, dtype, LOCKSTEP_SUM, call);
}

int lockstep_gather(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int root,
                    const lockstep_call* call) {
  return run_of_parts(gather, group, in, out, count, dtype, LOCKSTEP_SUM, call, root);
}

int lockstep_scatter(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int root,
                     const lockstep_call* call) {
  return run_of_parts(scatter, group, in, out, count, dtype, LOCKSTEP_SUM, call, root);
}

int lockstep_reduce_scatter(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                            const lockstep_call* call) {
  return run_of_parts(reduce_scatter, group, in, out, count, dtype, op, call);
}

int lockstep_all_to_all(lockstep_group* group, const void* in, void* out, int64_t count, int dtype,
                        const lockstep_call* call) {
  return run_of_parts(all_to_all, group, in, out, count, dtype, LOCKSTEP_SUM, call);
}

int lockstep_all_gather_v(lockstep_group* group, const void* in, void* out, const int64_t* counts, int dtype,
                          const lockstep_call* call) {
  return guarded(state_of(group), [&] {
    const Call c(group, call, dtype);
    const std::vector<Count> parts = c.counts(counts, "counts");
    const Count own = parts[c.state()->group->rank()];
    Collective collective = c.collective(all_gather_v, c.buffer(in, own.value), c.buffer(out, parts));
    collective.parts = parts;
    c.run(collective);
  });
}

int lockstep_reduce_scatter_v(lockstep_group* group, const void* in, void* out, const int64_t* counts, int dtype,
                              int op, const lockstep_call* call) {
  return guarded(state_of(group), [&] {
    const Call c(group, call, dtype);
    const std::vector<Count> parts = c.counts(counts, "counts");
    const Count own = parts[c.state()->group->rank()];
    Collective collective = c.collective(reduce_scatter_v, c.buffer(in, parts), c.buffer(out, own.value), op);
    collective.parts = parts;
    c.run(collective);
  });
}

int lockstep_all_to_all_v(lockstep_group* group, const void* in, const int64_t* sent, void* out,
                          const int64_t* received, int dtype, const lockstep_call* call) {
  return guarded(state_of(group), [&] {
    const Call c(group, call, dtype);
    const std::vector<Count> to = c.counts(sent, "sent");
    const std::vector<Count> from = c.counts(received, "received");
    Collective collective = c.collective(all_to_all_v, c.buffer(in, to), c.buffer(out, from));
    collective.parts = to;
    collective.received = from;
    c.run(collective);
  });
}

int lockstep_barrier(lockstep_group* group, const lockstep_call* call) {
  return guarded(state_of(group), [&] {
    const Call c(group, call);
    c.run(c.collective(barrier, {}, {}));
  });
}

int lockstep_send(lockstep_group* group, const void* in, int64_t count, int dtype, int to, const lockstep_call* call) {
  return guarded(state_of(group), [&] {
    const Call c(group, call, dtype);
    c.run(c.collective(send, c.buffer(in, count), {}, LOCKSTEP_SUM, to));
  });
}

int lockstep_recv(lockstep_group* group, void* out, int64_t count, int dtype, int from, const lockstep_call* call) {
  return guarded(state_of(group), [&] {
    const Call c(group, call, dtype);
    c.run(c.collective(recv, {}, c.buffer(out, count), LOCKSTEP_SUM, from));
  });
}

int lockstep_prepare_all_reduce(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                                const lockstep_call* call, lockstep_prepared** prepared) {
  return guarded(state_of(group), [&] {
    require(prepared, "prepared");
    const Call c(group, call, dtype);
    const auto turn = c.state()->group->take_turn();
    *prepared = new lockstep_prepared{c.state(), c.state()->communicator().prepare(c.collective(
                                                     all_reduce, c.buffer(in, count), c.buffer(out, count), op))};
  });
}

int lockstep_prepared_start(lockstep_prepared* prepared) {
  return guarded(prepared == nullptr ? nullptr : prepared->group.get(), [&] {
    require(prepared, "prepared");
    const auto turn = prepared->group->group->take_turn();
    prepared->prepared.start();
  });
}

int lockstep_prepared_wait(lockstep_prepared* prepared) {
  return guarded(prepared == nullptr ? nullptr : prepared->group.get(), [&] {
    require(prepared, "prepared");
    wait_in_turns(*prepared->group, prepared->prepared);
  });
}

int lockstep_prepared_test(lockstep_prepared* prepared, int* done) {
  return guarded(nullptr, [&] {
    require(prepared, "prepared");
    require(done, "done");
    const auto turn = prepared->group->group->take_turn();
    *done = prepared->prepared.test() ? 1 : 0;
  });
}

int lockstep_prepared_free(lockstep_prepared* prepared) {
  return guarded(nullptr, [&] { const std::unique_ptr<lockstep_prepared> released(prepared); });
}
