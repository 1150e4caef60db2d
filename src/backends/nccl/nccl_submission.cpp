// SPDX-License-Identifier: Apache-2.0
// This file implements the path of operations from their submission to the communicator and, part by part, to NCCL.

#include "backends/nccl/nccl_communicator.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {

Work NcclCommunicator::submit(const Collective& collective) {
  check_thread(name(collective.kind));
  const Progress::Exclusive exclusive(*progress_);
  check_usable(name(collective.kind));
  std::shared_ptr<NcclOperation> operation = enqueue({&collective, 1}).front();
  operation->is_captured() ? capture_all() : launch_what_can_be();
  return {std::move(operation), *progress_};
}

/// Operations of one part go to NCCL together, and first. An all-reduce in tree order has several parts and goes alone:
/// a message whose counterpart comes after it would delay it on one rank, and be taken for a part of it on another.
std::vector<Work> NcclCommunicator::submit_group(std::span<const Collective> members) {
  if (members.empty()) return {};
  check_thread("group");
  const Progress::Exclusive exclusive(*progress_);
  check_usable("group");
  const auto is_one_part = [this](const Collective& member) { return !is_in_tree_order(member); };
  std::vector<Collective> in_order(members.begin(), members.end());
  const auto several_parts = std::stable_partition(in_order.begin(), in_order.end(), is_one_part);
  const std::vector<std::shared_ptr<NcclOperation>> operations = enqueue(in_order);
  for (auto more = in_order.begin() + 1; more < several_parts; ++more) operations.front()->extend_launch();
  operations.front()->is_captured() ? capture_all() : launch_what_can_be();
  std::vector<Work> works;
  works.reserve(operations.size());
  std::size_t together = 0;
  auto alone = static_cast<std::size_t>(several_parts - in_order.begin());
  for (const Collective& member : members)
    works.emplace_back(operations[is_one_part(member) ? together++ : alone++], *progress_);
  return works;
}

Error NcclCommunicator::misuse(std::string_view operation, const std::string& why) const {
  return {ErrorCode::invalid_argument,
          why,
          {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname}};
}

/// Throws if another thread submits. This is the first check, because another thread could see the communicator's state
/// while it changes.
void NcclCommunicator::check_thread(std::string_view operation) const {
  check_process(operation);
  if (!progress_->is_of_this_thread()) throw misuse(operation, std::string(on_another_thread));
}

void NcclCommunicator::check_usable(std::string_view operation) {
  if (closed_) {
    throw Error(ErrorCode::transport, "the communicator is closed",
                {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
  }
  poll_before_submission();
  if (poison_) std::rethrow_exception(poison_);
}

/// Returns whether the members go into a graph. All work that the communicator's stream gets while it is captured goes
/// into the graph, so all members must be captured, or none. @throws Error{invalid_argument} before anything has been
/// done
bool NcclCommunicator::check_capture(std::span<const Collective> members) {
  const auto in_a_capture = [](const Collective& c) { return !c.queue.is_host() && is_captured(c.queue); };
  const auto captured = std::count_if(members.begin(), members.end(), in_a_capture);
  const std::string_view operation = name(members.front().kind);
  if (captured == 0 && is_captured(resources_->stream.queue()))
    throw misuse(operation,
                 "a stream is captured with operations of this communicator: until that ends, it takes "
                 "only operations whose queue is captured with it");
  if (captured == 0) return false;
  if (static_cast<std::size_t>(captured) != members.size())
    throw misuse(operation, "a group of operations of which some are captured, and some are not");
  progress();  // retires the operations that have ended
  if (poison_) std::rethrow_exception(poison_);
  if (!under_way_.empty())
    throw misuse(operation, "submitted for a graph while " + under_way_.front()->context().operation +
                                " is under way: wait for its Work before the stream is captured");
  return true;
}

/// Only communicators in tree order have scratch, and only if there is another rank.
bool NcclCommunicator::is_in_tree_order(const Collective& collective) const {
  return resources_->scratch.data() != nullptr && collective.kind == CollectiveKind::all_reduce;
}

std::optional<TreeOrderAllReduce> NcclCommunicator::tree_order_of(const Collective& collective) const {
  if (!is_in_tree_order(collective)) return std::nullopt;
  try {
    return TreeOrderAllReduce(collective, rank(), options_.shape, resources_->scratch);
  } catch (const Error& error) {
    throw refusal(error.code(), error.message(), collective);
  }
}

/// Enqueues all of the members, or none if one is refused.
std::vector<std::shared_ptr<NcclOperation>> NcclCommunicator::enqueue(std::span<const Collective> members) {
  const bool captured = check_capture(members);
  std::vector<std::optional<TreeOrderAllReduce>> in_tree_order;
  for (const Collective& member : members) in_tree_order.push_back(tree_order_of(member));
  std::vector<std::shared_ptr<NcclOperation>> operations;
  operations.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    operations.push_back(idle_operation());
    operations.back()->submit(members[i], std::move(in_tree_order[i]), captured, progress_->recorder());
  }
  if (under_way_.empty()) last_advance_ = last_check_ = progress_->now();
  under_way_.insert(under_way_.end(), operations.begin(), operations.end());
  submitted_ += static_cast<std::uint64_t>(
      std::count_if(members.begin(), members.end(), [](const Collective& member) { return !is_message(member.kind); }));
  return operations;
}

/// Launches everything now, because a part that is launched later would be missing in the graph.
/// @throws the error that ends the communicator meanwhile
void NcclCommunicator::capture_all() {
  launch_what_can_be();
  progress_->wait([this] { return idle(); });
  if (poison_) std::rethrow_exception(poison_);
}

void NcclCommunicator::launch_what_can_be() {
  try {
    select_gpu(gpu_);  // the program may have selected another GPU meanwhile
    while (launch_next()) {
    }
  } catch (...) {
    give_up();
  }
}

/// Checks whether another rank has given up: in the memory of the node at every call, by messages at most every 5 ms.
void NcclCommunicator::poll_before_submission() {
  if (!options_.control || poison_) return;
  constexpr std::chrono::milliseconds between_messages{5};
  const Clock::time_point now = progress_->now();
  const bool asks_for_messages = options_.control->has_link() && now - last_poll_ > between_messages;
  if (options_.control->heard() || asks_for_messages) on_tick(now);
}

bool NcclCommunicator::launch_next() {
  try {
    return launch_next_part();
  } catch (const Error&) {
    if (!has_failed()) throw;
    return false;  // NCCL refuses calls because another rank has failed: see check_health
  }
}

/// Launches the next part of the oldest operation that is not on the stream yet, with the operations launched together
/// with it.
bool NcclCommunicator::launch_next_part() {
  if (launched_ == under_way_.size() || busy()) return false;
  NcclOperation& next = *under_way_[launched_];
  const std::size_t end = launched_ + next.launch_size();
  const Queue stream = resources_->stream.queue();
  if (options_.check && next.stage() == NcclOperation::Stage::queued && !compare_up_to(end)) return false;
  if (next.all_launched()) {  // NCCL is no longer busy with the last part
    for (; launched_ < end; ++launched_) under_way_[launched_]->mark_launched(stream);
    return true;
  }
  void* const token = resources_->token.data();
  if (next.launch_size() == 1) {
    next.launch_next_part(communicator_, stream, token);
    return true;
  }
  MessageGroup group(communicator_, cuda_stream(stream));
  for (std::size_t i = launched_; i < end; ++i) under_way_[i]->launch_next_part(communicator_, stream, token);
  group.close();
  return true;
}

bool NcclCommunicator::compare_up_to(std::size_t end) {
  for (; compared_ < end; ++compared_) {
    NcclOperation& next = *under_way_[compared_];
    if (!is_message(next.kind()) && !compare(next)) return false;
  }
  return true;
}

/// Returns whether all ranks are known to call the same operation. The host compares, while this stream and the
/// caller's continue. Each rank knows its calls at submission, which follows the order of the program, so the exchanges
/// follow that order too and need not wait for the data: the operation's place after the caller's queue was marked when
/// it was submitted, however late it is launched. @throws Error{mismatch}, on all ranks
bool NcclCommunicator::compare(NcclOperation& next) {
  if (!is_comparing_) comparison_.begin(*options_.check, next.signature());
  is_comparing_ = true;
  try {
    if (!next.is_compared(comparison_)) return false;
    is_comparing_ = false;
  } catch (const Error& error) {
    throw error.of_operation(next.context());
  }
  return true;
}

std::shared_ptr<NcclOperation> NcclCommunicator::idle_operation() {
  auto& pool = resources_->pool;
  for (const auto& operation : pool) {
    if (operation.use_count() == 1) return operation;
  }
  select_gpu(gpu_);  // its events belong to this GPU
  pool.push_back(std::make_shared<NcclOperation>(*this));
  return pool.back();
}

}  // namespace lockstep::backends
