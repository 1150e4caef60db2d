// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::bindings {
namespace {

/// A tensor as lockstep reads and writes it: itself, or a contiguous copy.
class Dense {
 public:
  /// @param reads  whether the values count
  Dense(at::Tensor tensor, bool reads) : tensor_(std::move(tensor)) {
    TORCH_CHECK(tensor_.layout() == at::kStrided, "lockstep takes dense tensors, and one is ", tensor_.layout());
    TORCH_CHECK(tensor_.device().is_cpu(), "lockstep takes tensors in memory of the host, and one is on ",
                tensor_.device(), ": give each device its own back end, as in \"cpu:lockstep,cuda:nccl\"");
    memory_ = tensor_.is_non_overlapping_and_dense() && tensor_.is_contiguous() ? tensor_
              : reads                                                           ? tensor_.contiguous()
                      : at::empty(tensor_.sizes(), tensor_.options());
  }
  /// For operations that only move data: their bytes, so that every type has one.
  [[nodiscard]] Buffer bytes() const {
    return {memory_.data_ptr(), {static_cast<std::int64_t>(memory_.nbytes())}, DType::uint8};
  }
  [[nodiscard]] Buffer values(DType dtype) const {
    return {memory_.data_ptr(), {static_cast<std::int64_t>(memory_.nbytes()) / size_of(dtype)}, dtype};
  }
  [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }
  void write_back() const {
    if (!memory_.is_same(tensor_)) tensor_.copy_(memory_);
  }

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
};

std::vector<Dense> dense_of(const std::vector<at::Tensor>& tensors, bool reads) {
  std::vector<Dense> all;
  for (const at::Tensor& tensor : tensors) all.emplace_back(tensor, reads);
  return all;
}
std::function<void()> write_back_of(std::vector<Dense> all) {
  return [all = std::move(all)] {
    for (const Dense& dense : all) dense.write_back();
  };
}

/// Several tensors that lie one behind the other for an operation.
class Row {
 public:
  Row(std::vector<at::Tensor> tensors, bool reads) : tensors_(std::move(tensors)) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors_) {
      counts_.push_back({static_cast<std::int64_t>(tensor.nbytes())});
      bytes += counts_.back().value;
    }
    memory_ = at::empty({bytes}, at::kByte);
    if (reads) for_each_part([](const at::Tensor& tensor, const at::Tensor& part) { part.copy_(tensor); });
  }
  [[nodiscard]] Buffer bytes() const { return {memory_.data_ptr(), {memory_.numel()}, DType::uint8}; }
  [[nodiscard]] Buffer values(DType dtype) const {
    return {memory_.data_ptr(), {memory_.numel() / size_of(dtype)}, dtype};
  }
  [[nodiscard]] const std::vector<Count>& counts() const { return counts_; }
  void write_back() const {
    for_each_part([](const at::Tensor& tensor, const at::Tensor& part) { tensor.copy_(part); });
  }

 private:
  template <typename Each>
  void for_each_part(const Each& each) const {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const at::Tensor& tensor = tensors_[i];
      if (tensor.numel() > 0)
        each(tensor, memory_.narrow(0, begin, counts_[i].value).view(tensor.scalar_type()).view(tensor.sizes()));
      begin += counts_[i].value;
    }
  }
  std::vector<at::Tensor> tensors_;
  std::vector<Count> counts_;
  at::Tensor memory_;
};

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kByte: return DType::uint8;
    case at::kChar: return DType::int8;
    case at::kShort: return DType::int16;
    case at::kUInt16: return DType::uint16;
    case at::kBool: return DType::boolean;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
    default: break;
  }
  TORCH_CHECK(false, "lockstep does not reduce tensors of type ", c10::toString(type));
}

ReduceOp operator_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return ReduceOp::sum;
    case c10d::ReduceOp::AVG: return ReduceOp::average;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::product;
    case c10d::ReduceOp::MIN: return ReduceOp::min;
    case c10d::ReduceOp::MAX: return ReduceOp::max;
    case c10d::ReduceOp::BAND: return ReduceOp::bit_and;
    case c10d::ReduceOp::BOR: return ReduceOp::bit_or;
    case c10d::ReduceOp::BXOR: return ReduceOp::bit_xor;
    default: break;
  }
  TORCH_CHECK(false, "lockstep reduces by SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR and BXOR, not by PREMUL_SUM");
}

at::Tensor& only(std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "a rank has one tensor in this operation, not ", tensors.size());
  return tensors.front();
}

template <typename T>
std::vector<T> list_of(T&& one) {
  std::vector<T> list;
  list.push_back(std::move(one));
  return list;
}

/// The bytes of a tensor's parts for each rank, by rows: as given, or equal.
std::vector<Count> part_bytes(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int ranks) {
  const std::int64_t all = tensor.dim() == 0 ? 1 : tensor.size(0);
  const std::int64_t of_row = all == 0 ? 0 : static_cast<std::int64_t>(tensor.nbytes()) / all;
  TORCH_CHECK(!rows.empty() || all % ranks == 0, "a tensor of ", all, " rows does not divide among ", ranks, " ranks");
  TORCH_CHECK(rows.empty() || (std::cmp_equal(rows.size(), ranks) &&
                               std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == all),
              "the split sizes are not those of ", ranks, " ranks and ", all, " rows");
  std::vector<Count> counts;
  for (int rank = 0; rank < ranks; ++rank)
    counts.push_back({(rows.empty() ? all / ranks : rows[static_cast<std::size_t>(rank)]) * of_row});
  return counts;
}

}  // namespace

Backend::Backend(std::unique_ptr<ProcessGroup> group, std::chrono::milliseconds timeout)
    : c10d::Backend(group->rank().value, group->size()),
      served_(std::make_shared<ServedGroup>()),
      options_(c10::make_intrusive<Options>("lockstep", timeout)) {
  served_->group = std::move(group);
}

Backend::~Backend() {
  // To close a group is collective, and a destructor may run on some ranks only.
  if (!closed_) abort_with("a rank destroyed the process group without destroy_process_group()");
}

void Backend::abort_with(const std::string& why) {
  if (!closed_ && served_) served_->group->abort(why);
}

const std::shared_ptr<ServedGroup>& Backend::served() const {
  if (!served_)
    std::rethrow_exception(torch_error(Error(
        ErrorCode::invalid_argument, "the process group has no members yet: call reconfigure() with their handles")));
  return served_;
}

void Backend::shutdown() {
  if (std::exchange(closed_, true) || !served_) return;
  Service::instance().drain(served_);
  const auto turn = served_->group->take_turn();
  try {
    served_->group->close();
  } catch (const Error&) {
    if (!served_->has_failed) throw;  // otherwise the program knows it already
  }
}

void Backend::shutdown_with_parts() {
  for (const auto& part : parts_)
    if (const auto backend = part.lock()) backend->shutdown_with_parts();
  shutdown();
}

c10::intrusive_ptr<c10d::Work> Backend::start(Call call, bool is_async) {
  if (coalesced_) {
    coalesced_->push_back(std::move(call));
    return nullptr;
  }
  ++sequence_;
  auto work = c10::make_intrusive<TorchWork>(getRank(), call.type, std::move(call.results));
  Service::instance().submit(served(), std::move(call.submit), std::move(call.complete), work, is_async);
  return work;
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  const at::TensorOptions typed = options.dtype(c10::typeMetaToScalarType(options.dtype()));
  const Bytes bytes{size * static_cast<std::int64_t>(options.dtype().itemsize())};
  const auto turn = served()->group->take_turn();
  auto memory = std::make_shared<Allocation>(served_->group->allocate(bytes));
  ++allocations_;
  void* const data = memory->data();
  return at::from_blob(
      data, {size}, [memory = std::move(memory), served = served_](void* /*data*/) mutable { memory.reset(); }, typed);
}

void Backend::startCoalescing() { coalesced_.emplace(); }

c10::intrusive_ptr<c10d::Work> Backend::endCoalescing() {
  std::vector<Call> calls = std::move(coalesced_).value_or(std::vector<Call>());
  coalesced_.reset();
  if (calls.empty()) return nullptr;
  Call all{.type = c10d::OpType::COALESCED};
  for (const Call& call : calls) all.results.insert(all.results.end(), call.results.begin(), call.results.end());
  const auto shared = std::make_shared<std::vector<Call>>(std::move(calls));
  all.submit = [shared](Communicator& communicator) {
    std::vector<Work> parts;
    for (const Call& call : *shared)
      for (Work& part : call.submit(communicator)) parts.push_back(std::move(part));
    return parts;
  };
  all.complete = [shared] {
    for (const Call& call : *shared)
      if (call.complete) call.complete();
  };
  return start(std::move(all), true);
}

c10::intrusive_ptr<c10d::Work> Backend::broadcast(std::vector<at::Tensor>& tensors,
                                                  const c10d::BroadcastOptions& options) {
  const Dense dense(only(tensors), options.rootRank == getRank());
  const Rank root{static_cast<int>(options.rootRank)};
  return start({.type = c10d::OpType::BROADCAST,
                .results = tensors,
                .submit = [=](Communicator& c) { return list_of(c.broadcast(dense.bytes(), root)); },
                .complete = [=] { dense.write_back(); }},
               options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::all_reduce_of(c10d::OpType type, std::vector<at::Tensor> tensors,
                                                      const c10d::ReduceOp& op, bool is_async) {
  const std::vector<Dense> all = dense_of(tensors, true);
  std::vector<DType> types;
  for (const at::Tensor& tensor : tensors) types.push_back(dtype_of(tensor.scalar_type()));
  const ReduceOp by = operator_of(op);
  return start({.type = type,
                .results = std::move(tensors),
                .submit =
                    [=](Communicator& c) {
                      std::vector<Work> parts;
                      for (std::size_t i = 0; i < all.size(); ++i) {
                        const Buffer values = all[i].values(types[i]);
                        parts.push_back(c.all_reduce(values, values, by));
                      }
                      return parts;
                    },
                .complete = write_back_of(all)},
               is_async);
}

c10::intrusive_ptr<c10d::Work> Backend::allreduce(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceOptions& options) {
  return all_reduce_of(c10d::OpType::ALLREDUCE, {only(tensors)}, options.reduceOp, options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                            const c10d::AllreduceCoalescedOptions& options) {
  return all_reduce_of(c10d::OpType::ALLREDUCE_COALESCED, tensors, options.reduceOp, options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) {
  const Dense dense(only(tensors), true);
  const DType dtype = dtype_of(dense.tensor().scalar_type());
  const ReduceOp by = operator_of(options.reduceOp);
  const Rank root{static_cast<int>(options.rootRank)};
  return start(
      {.type = c10d::OpType::REDUCE,
       .results = tensors,
       .submit = [=](Communicator& c) { return list_of(c.reduce(dense.values(dtype), dense.values(dtype), by, root)); },
       .complete =
           [=, rank = getRank()] {
             if (rank == root.value) dense.write_back();
           }},
      options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::all_gather_of(c10d::OpType type, std::vector<at::Tensor> outputs,
                                                      std::vector<at::Tensor> inputs, bool is_async) {
  TORCH_CHECK(outputs.size() == inputs.size(), "there are ", outputs.size(), " outputs and ", inputs.size(), " inputs");
  const std::vector<Dense> from = dense_of(inputs, true);
  const std::vector<Dense> to = dense_of(outputs, false);
  return start({.type = type,
                .results = std::move(outputs),
                .submit =
                    [=](Communicator& c) {
                      std::vector<Work> parts;
                      for (std::size_t i = 0; i < from.size(); ++i)
                        parts.push_back(c.all_gather(from[i].bytes(), to[i].bytes()));
                      return parts;
                    },
                .complete = write_back_of(to)},
               is_async);
}

c10::intrusive_ptr<c10d::Work> Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  return all_gather_of(c10d::OpType::_ALLGATHER_BASE, {output}, {input}, options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                        std::vector<at::Tensor>& inputs,
                                                                        const c10d::AllgatherOptions& options) {
  return all_gather_of(c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED, outputs, inputs, options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                  std::vector<at::Tensor>& inputs,
                                                  const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == 1 && std::cmp_equal(outputs.front().size(), getSize()), "a list of ", getSize(),
              " tensors is needed, one from each rank");
  const Dense from(only(inputs), true);
  const Row to(outputs.front(), false);
  // Ranks may have tensors of different sizes, whose bytes each rank knows from its own list.
  return start(
      {.type = c10d::OpType::ALLGATHER,
       .results = outputs.front(),
       .submit = [=](Communicator& c) { return list_of(c.all_gather_v(from.bytes(), to.bytes(), to.counts())); },
       .complete = [=] { to.write_back(); }},
      options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                            std::vector<at::Tensor>& inputs,
                                                            const c10d::AllgatherOptions& options) {
  // Here the outer list is by rank, and the inner one by tensor.
  TORCH_CHECK(std::cmp_equal(outputs.size(), getSize()), "lists of ", getSize(), " ranks are needed");
  std::vector<Dense> from;
  std::vector<Row> to;
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> of_ranks;
    for (const std::vector<at::Tensor>& of_rank : outputs) of_ranks.push_back(of_rank.at(i));
    results.insert(results.end(), of_ranks.begin(), of_ranks.end());
    from.emplace_back(inputs[i], true);
    to.emplace_back(std::move(of_ranks), false);
  }
  return start({.type = c10d::OpType::ALLGATHER_COALESCED,
                .results = std::move(results),
                .submit =
                    [=](Communicator& c) {
                      std::vector<Work> parts;
                      for (std::size_t i = 0; i < from.size(); ++i)
                        parts.push_back(c.all_gather_v(from[i].bytes(), to[i].bytes(), to[i].counts()));
                      return parts;
                    },
                .complete =
                    [=] {
                      for (const Row& row : to) row.write_back();
                    }},
               options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                               std::vector<at::Tensor>& inputs, const c10d::GatherOptions& options) {
  const bool is_root = options.rootRank == getRank();
  const Rank root{static_cast<int>(options.rootRank)};
  const Dense from(only(inputs), true);
  TORCH_CHECK(!is_root || (outputs.size() == 1 && std::cmp_equal(outputs.front().size(), getSize())),
              "the root needs a list of ", getSize(), " tensors, one from each rank");
  const Row to(is_root ? outputs.front() : std::vector<at::Tensor>(), false);
  return start({.type = c10d::OpType::GATHER,
                .results = is_root ? outputs.front() : std::vector<at::Tensor>(),
                .submit = [=](Communicator& c) { return list_of(c.gather(from.bytes(), to.bytes(), root)); },
                .complete = [=] { to.write_back(); }},
               options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ScatterOptions& options) {
  const bool is_root = options.rootRank == getRank();
  const Rank root{static_cast<int>(options.rootRank)};
  const Dense to(only(outputs), false);
  TORCH_CHECK(!is_root || (inputs.size() == 1 && std::cmp_equal(inputs.front().size(), getSize())),
              "the root needs a list of ", getSize(), " tensors, one for each rank");
  const Row from(is_root ? inputs.front() : std::vector<at::Tensor>(), true);
  return start({.type = c10d::OpType::SCATTER,
                .results = outputs,
                .submit = [=](Communicator& c) { return list_of(c.scatter(from.bytes(), to.bytes(), root)); },
                .complete = [=] { to.write_back(); }},
               options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::reduce_scatter_of(c10d::OpType type, std::vector<at::Tensor> outputs,
                                                          std::vector<at::Tensor> inputs, const c10d::ReduceOp& op,
                                                          bool is_async) {
  TORCH_CHECK(outputs.size() == inputs.size(), "there are ", outputs.size(), " outputs and ", inputs.size(), " inputs");
  const std::vector<Dense> from = dense_of(inputs, true);
  const std::vector<Dense> to = dense_of(outputs, false);
  std::vector<DType> types;
  for (const at::Tensor& input : inputs) types.push_back(dtype_of(input.scalar_type()));
  const ReduceOp by = operator_of(op);
  return start({.type = type,
                .results = std::move(outputs),
                .submit =
                    [=](Communicator& c) {
                      std::vector<Work> parts;
                      for (std::size_t i = 0; i < from.size(); ++i)
                        parts.push_back(c.reduce_scatter(from[i].values(types[i]), to[i].values(types[i]), by));
                      return parts;
                    },
                .complete = write_back_of(to)},
               is_async);
}

c10::intrusive_ptr<c10d::Work> Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                             const c10d::ReduceScatterOptions& options) {
  return reduce_scatter_of(c10d::OpType::_REDUCE_SCATTER_BASE, {output}, {input}, options.reduceOp, options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                        std::vector<at::Tensor>& inputs,
                                                                        const c10d::ReduceScatterOptions& options) {
  return reduce_scatter_of(c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, outputs, inputs, options.reduceOp,
                           options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::reduce_scatter(std::vector<at::Tensor>& outputs,
                                                       std::vector<std::vector<at::Tensor>>& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(inputs.size() == 1 && std::cmp_equal(inputs.front().size(), getSize()), "a list of ", getSize(),
              " tensors is needed, one for each rank");
  const Dense to(only(outputs), false);
  const DType dtype = dtype_of(to.tensor().scalar_type());
  const ReduceOp by = operator_of(options.reduceOp);
  const Row from(inputs.front(), true);
  std::vector<Count> counts;
  for (const Count bytes : from.counts()) counts.push_back({bytes.value / size_of(dtype)});
  return start({.type = c10d::OpType::REDUCE_SCATTER,
                .results = outputs,
                .submit =
                    [=](Communicator& c) {
                      return list_of(c.reduce_scatter_v(from.values(dtype), to.values(dtype), counts, by));
                    },
                .complete = [=] { to.write_back(); }},
               options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<std::int64_t>& output_splits,
                                                      std::vector<std::int64_t>& input_splits,
                                                      const c10d::AllToAllOptions& options) {
  const Dense from(input, true);
  const Dense to(output, false);
  const std::vector<Count> sent = part_bytes(input, input_splits, getSize());
  const std::vector<Count> received = part_bytes(output, output_splits, getSize());
  return start(
      {.type = c10d::OpType::ALLTOALL_BASE,
       .results = {output},
       .submit = [=](Communicator& c) { return list_of(c.all_to_all_v(from.bytes(), sent, to.bytes(), received)); },
       .complete = [=] { to.write_back(); }},
      options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                                 const c10d::AllToAllOptions& options) {
  TORCH_CHECK(std::cmp_equal(outputs.size(), getSize()) && outputs.size() == inputs.size(), "lists of ", getSize(),
              " tensors are needed, one for each rank");
  const Row from(inputs, true);
  const Row to(outputs, false);
  return start({.type = c10d::OpType::ALLTOALL,
                .results = outputs,
                .submit =
                    [=](Communicator& c) {
                      return list_of(c.all_to_all_v(from.bytes(), from.counts(), to.bytes(), to.counts()));
                    },
                .complete = [=] { to.write_back(); }},
               options.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::send(std::vector<at::Tensor>& tensors, int to, int tag) {
  const Dense dense(only(tensors), true);
  return start({.type = c10d::OpType::SEND,
                .results = tensors,
                .submit = [=, label = "tag " + std::to_string(tag)](
                              Communicator& c) { return list_of(c.send(dense.bytes(), {to}, Queue::host(), label)); },
                .complete = nullptr},
               true);
}

c10::intrusive_ptr<c10d::Work> Backend::recv(std::vector<at::Tensor>& tensors, int from, int tag) {
  const Dense dense(only(tensors), false);
  return start({.type = c10d::OpType::RECV,
                .results = tensors,
                .submit = [=, label = "tag " + std::to_string(tag)](
                              Communicator& c) { return list_of(c.recv(dense.bytes(), {from}, Queue::host(), label)); },
                .complete = [=] { dense.write_back(); }},
               true);
}

c10::intrusive_ptr<c10d::Work> Backend::barrier(const c10d::BarrierOptions& options) {
  return start({.type = c10d::OpType::BARRIER,
                .submit = [](Communicator& c) { return list_of(c.barrier()); },
                .complete = nullptr},
               options.asyncOp);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_all_ranks*/) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
  // The other ranks wait longer than rank 0, whose error says more than theirs.
  const auto patience = getRank() == 0 ? timeout : 2 * timeout;
  const auto end = std::chrono::steady_clock::now() + patience;
  const int first = getRank() == 0 ? 1 : 0;
  const int last = getRank() == 0 ? getSize() - 1 : 0;
  constexpr int tag = -1;  // none of the program's
  const auto message = [] { return list_of(at::zeros({1}, at::kByte)); };
  std::vector<c10::intrusive_ptr<c10d::Work>> arrivals;
  for (int rank = first; rank <= last; ++rank) {
    std::vector<at::Tensor> received = message();
    std::vector<at::Tensor> sent = message();
    if (getRank() != 0) send(sent, rank, tag);
    arrivals.push_back(recv(received, rank, tag));
  }
  std::string missing;
  for (int rank = first; rank <= last; ++rank) {
    auto& arrival = static_cast<TorchWork&>(*arrivals[static_cast<std::size_t>(rank - first)]);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    Service::instance().help(arrival, std::max(left, std::chrono::milliseconds(1)));
    if (arrival.isCompleted()) {
      arrival.wait(kNoTimeout);  // throws if it has failed
    } else {
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
    }
  }
  if (!missing.empty()) {
    const std::string why =
        "monitored_barrier: " + missing + " did not come within " + std::to_string(patience.count()) + " ms";
    served_->has_failed = true;
    abort_with(why);
    std::rethrow_exception(
        torch_error(Error(ErrorCode::timeout, why, {.rank = getRank(), .host = served_->group->host()})));
  }
  if (getRank() != 0) return;
  for (int rank = first; rank <= last; ++rank) {
    std::vector<at::Tensor> sent = message();
    send(sent, rank, tag)->wait();
  }
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const auto timeout = options == nullptr ? options_->timeout : options->timeout;
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  // No other group of the same call has a rank of this one, so that its first rank can be its color.
  const auto color = mine == ranks.end() ? std::nullopt : std::optional(ranks.front());
  Service::instance().drain(served());  // other ranks may wait for what is still in the queue
  const auto turn = served_->group->take_turn();
  auto part = served_->group->split(color, static_cast<int>(mine - ranks.begin()), GroupOptions{.deadline = timeout});
  if (!part) return nullptr;
  auto backend = c10::make_intrusive<Backend>(std::make_unique<ProcessGroup>(std::move(*part)), timeout);
  parts_.emplace_back(backend);
  return backend;
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  if (timeout == options_->timeout) return;
  TORCH_WARN("lockstep: the deadline of a group stays what it was when the group was made, ", options_->timeout.count(),
             " ms: make a group with another one by new_group(timeout=...) or split_group(timeout=...)");
}
#endif

}  // namespace lockstep::bindings
