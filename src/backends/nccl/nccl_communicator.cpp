// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "backends/nccl/message_group.hpp"
#include "backends/nccl/nccl_check.hpp"
#include "comm/farewell.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {

NcclCommunicator::NcclCommunicator(const NcclGroup& group, const ncclUniqueId& id, Progress& progress,
                                   NcclOptions options)
    : Communicator(group.rank, group.size), options_(std::move(options)), gpu_(group.gpu), progress_(&progress) {
  try {
    start(group, id);
  } catch (...) {  // the others may be waiting for this rank
    poison(current_exception_of(rank().value, options_.hostname));
    leave_behind();
    std::rethrow_exception(poison_);
  }
  progress_->add(*this);
}

void NcclCommunicator::start(const NcclGroup& group, const ncclUniqueId& id) {
  resources_ = std::make_unique<Resources>();
  resources_->control = options_.control;
  // Now and not when it is first used: allocating waits for the GPU, and that might be waiting for other ranks then.
  // One rank has nobody to add to.
  if (options_.algorithm == NcclAlgorithm::tree_order && group.size > 1) {
    resources_->scratch = allocate_device(TreeOrderAllReduce::scratch_bytes);
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  LOCKSTEP_NCCL_CHECK(ncclCommInitRankConfig(&communicator_, group.size, id, group.rank.value, &config), nullptr);
  wait_until_idle("make_nccl");
  resources_->check = options_.check;
}

NcclCommunicator::~NcclCommunicator() {
  progress_->remove(*this);
  if (closed_) return;
  if (std::uncaught_exceptions() == 0) {
    progress_->say("rank " + std::to_string(rank().value) +
                   ": a communicator (nccl) was destroyed without close(); its resources stay in use");
  }
  // Neither who waits here nor who waits elsewhere must wait for ever for what nobody moves any more.
  const Error error(ErrorCode::transport, "the communicator was destroyed before close()",
                    {.rank = rank().value, .host = options_.hostname});
  if (!poison_) abandon_all(std::make_exception_ptr(error));
  leave_behind();
}

/// What the GPU and other ranks may still be at work with stays for as long as the process lives.
void NcclCommunicator::leave_behind() {
  if (!resources_) return;
  {
    const Progress::Exclusive exclusive(*progress_);
    if (options_.control) options_.control->tell_now();
  }
  static_cast<void>(resources_.release());
}

void NcclCommunicator::abort(std::string_view why) noexcept {
  if (!options_.control) return;
  options_.control->raise(ErrorCode::transport, why, {});
  if (!progress_->is_known_to_be_of_this_thread()) return;
  const Progress::Exclusive exclusive(*progress_);
  options_.control->tell_now();
}

Allocation NcclCommunicator::allocate(Bytes bytes) {
  if (bytes.value < 0) {
    throw Error(ErrorCode::invalid_argument, "cannot allocate " + std::to_string(bytes.value) + " bytes");
  }
  if (bytes.value == 0) return {};
  select_gpu(gpu_);
  void* data = nullptr;
  LOCKSTEP_NCCL_CHECK(ncclMemAlloc(&data, static_cast<std::size_t>(bytes.value)), nullptr);
  Allocation memory(data, bytes, MemoryKind::device, [](void* p) { ncclMemFree(p); });
  LOCKSTEP_CUDA_CHECK(cudaMemset(data, 0, static_cast<std::size_t>(bytes.value)));
  LOCKSTEP_CUDA_CHECK(cudaDeviceSynchronize());  // the caller's streams do not wait for the default one
  return memory;
}

void NcclCommunicator::close() {
  const Progress::Exclusive exclusive(*progress_);
  if (closed_) return;
  look_round(progress_->now());
  if (poison_) std::rethrow_exception(poison_);
  if (!under_way_.empty()) {
    throw Error(ErrorCode::invalid_argument, "close() while an operation is under way: wait for its Work first",
                under_way_.front()->context());
  }
  try {
    if (options_.control) options_.control->leave(submitted_);
    LOCKSTEP_NCCL_CHECK(ncclCommFinalize(communicator_), communicator_);
    wait_until_idle("close");
    LOCKSTEP_NCCL_CHECK(ncclCommDestroy(std::exchange(communicator_, nullptr)), nullptr);
    if (options_.check) options_.check->close();
  } catch (...) {
    poison(current_exception_of(rank().value, options_.hostname));
    std::rethrow_exception(poison_);
  }
  closed_ = true;
  if (options_.control) close_when_all_have_left(options_.control, *progress_);
}

Work NcclCommunicator::submit(const Collective& collective) {
  if (!progress_->is_of_this_thread()) {
    throw Error(ErrorCode::invalid_argument,
                "submitted on another thread than the one that uses this rank's communicators",
                {.operation = std::string(name(collective.kind)), .rank = rank().value, .host = options_.hostname});
  }
  const Progress::Exclusive exclusive(*progress_);
  check_usable(name(collective.kind));
  std::shared_ptr<NcclOperation> operation = enqueue(collective);
  launch_what_can_be();
  return {std::move(operation), *progress_};
}

/// What is one part each goes to NCCL together; an all-reduce in tree order is several, and goes alone.
std::vector<Work> NcclCommunicator::submit_group(std::span<const Collective> members) {
  const Progress::Exclusive exclusive(*progress_);
  if (members.empty()) return {};
  check_usable("group");
  std::vector<Work> works;
  works.reserve(members.size());
  std::shared_ptr<NcclOperation> first;
  for (const Collective& member : members) {
    const std::shared_ptr<NcclOperation> operation = enqueue(member);
    works.emplace_back(operation, *progress_);
    if (operation->is_one_part() && first) {
      first->extend_launch();
    } else {
      first = operation->is_one_part() ? operation : nullptr;
    }
  }
  launch_what_can_be();
  return works;
}

void NcclCommunicator::check_usable(std::string_view operation) {
  if (closed_) {
    throw Error(ErrorCode::transport, "the communicator is closed",
                {.operation = std::string(operation), .rank = rank().value, .host = options_.hostname});
  }
  look_before_submission();
  if (poison_) std::rethrow_exception(poison_);
}

std::shared_ptr<NcclOperation> NcclCommunicator::enqueue(const Collective& collective) {
  std::shared_ptr<NcclOperation> operation = idle_operation();
  operation->submit(collective, resources_->scratch.data());
  if (under_way_.empty()) last_advance_ = last_check_ = progress_->now();
  under_way_.push_back(operation);
  if (!is_message(collective.kind)) ++submitted_;
  return operation;
}

void NcclCommunicator::launch_what_can_be() {
  try {
    while (launch_next()) {
    }
  } catch (...) {
    poison(current_exception_of(rank().value, options_.hostname));
  }
}

/// Whether another rank has given up. The word of the node is looked at always, for messages no more often than a clock
/// allows.
void NcclCommunicator::look_before_submission() {
  if (!options_.control || poison_) return;
  constexpr std::chrono::milliseconds between_messages{5};
  const Clock::time_point now = progress_->now();
  const bool asks_for_messages = options_.control->has_post() && now - last_heed_ > between_messages;
  if (options_.control->heard() || asks_for_messages) look_round(now);
}

bool NcclCommunicator::progress() noexcept {
  if (idle()) return false;
  try {
    return advance();
  } catch (...) {
    poison(current_exception_of(rank().value, options_.hostname));
  }
  return true;
}

bool NcclCommunicator::look_round(Clock::time_point now) noexcept {
  if (closed_) return false;
  try {
    heed();
    if (!idle()) check_deadline(now);
    return false;
  } catch (...) {
    if (!poison_) poison(current_exception_of(rank().value, options_.hostname));
  }
  return true;
}

/// Passes on what there is to tell. @throws Error if that ends this communicator
void NcclCommunicator::heed() {
  last_heed_ = progress_->now();
  if (!options_.control) return;
  options_.control->tend();
  if (poison_) return;
  const ErrorContext what = under_way_.empty() ? ErrorContext() : under_way_.front()->context();
  if (const auto alarm = options_.control->heard()) throw alarm->of_operation(what);
  if (const auto early = options_.control->early_close(submitted_)) throw early->of_operation(what);
}

bool NcclCommunicator::advance() {
  check_health();
  bool moved = false;
  while (launch_next()) moved = true;
  while (advance_front()) moved = true;
  if (moved) last_advance_ = progress_->now();
  return moved;
}

/// Retires the oldest operation if the stream is past it.
bool NcclCommunicator::advance_front() {
  if (launched_ == 0 || !under_way_.front()->check_finished()) return false;
  if (options_.observer != nullptr) options_.observer->span(under_way_.front()->span());
  under_way_.pop_front();
  --launched_;
  if (compared_ > 0) --compared_;
  return true;
}

/// Takes the oldest operation that the stream does not have, and those that go with it, one part on.
bool NcclCommunicator::launch_next() {
  if (launched_ == under_way_.size() || busy()) return false;
  NcclOperation& next = *under_way_[launched_];
  const std::size_t end = launched_ + next.launch_size();
  const Queue stream = resources_->stream.queue();
  if (options_.check && next.stage() == NcclOperation::Stage::queued && !compare_up_to(end)) return false;
  select_gpu(gpu_);           // a progress thread has selected none
  if (next.all_launched()) {  // and NCCL is no longer busy with the last part
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

/// Whether all ranks are known to call the same; the host finds out, while the stream and the caller's go on. What
/// they call they know at submission, which is in the order of the program, so the exchanges are in that order too and
/// need not wait for the data: the operation's place after the caller's queue was marked when it was submitted, however
/// late it is launched. @throws Error{mismatch}, on all ranks
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

bool NcclCommunicator::busy() const {
  ncclResult_t state = ncclSuccess;
  LOCKSTEP_NCCL_CHECK(ncclCommGetAsyncError(communicator_, &state), communicator_);
  return state == ncclInProgress;
}

void NcclCommunicator::check_health() {
  ncclResult_t state = ncclSuccess;
  LOCKSTEP_NCCL_CHECK(ncclCommGetAsyncError(communicator_, &state), communicator_);
  LOCKSTEP_NCCL_CHECK(state, communicator_);
}

void NcclCommunicator::launch_all() {
  progress_->wait([this] { return poison_ != nullptr || launched_ == under_way_.size(); });
}

/// Time during which the caller's queue holds the operation back does not count, nor time in which this rank did not
/// poll: it has not waited for anybody then.
void NcclCommunicator::check_deadline(Clock::time_point now) {
  const bool was_away = now - last_check_ > options_.deadline / 10;
  last_check_ = now;
  if (was_away || !under_way_.front()->could_run()) last_advance_ = now;
  const std::chrono::duration<double> silent = now - last_advance_;
  if (silent < options_.deadline) return;
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(),
                "nothing has moved for %.2f s: are all ranks alive, and do they submit the same operations?",
                silent.count());
  throw Error(ErrorCode::timeout, text.data(), under_way_.front()->context());
}

/// For start and end, when there is no operation of this communicator to drive; there may be of others.
void NcclCommunicator::wait_until_idle(const char* doing) {
  const auto is_idle = [this] {
    check_health();
    if (options_.control) {
      options_.control->tend();  // nobody else polls for a communicator that is still being made
      if (const auto alarm = options_.control->heard()) throw Error(*alarm);
    }
    return !busy();
  };
  const auto until = progress_->now() + std::chrono::duration_cast<Clock::duration>(options_.deadline);
  if (progress_->wait_until(is_idle, until)) return;
  throw Error(ErrorCode::timeout, "NCCL did not get ready within the deadline: did every rank come here?",
              {.operation = doing, .rank = rank().value, .host = options_.hostname});
}

void NcclCommunicator::abandon_all(std::exception_ptr error) noexcept {
  poison_ = std::move(error);
  for (const auto& operation : under_way_) {
    if (operation->state() == Operation::State::pending) operation->abandon(poison_);
  }
  if (options_.control) options_.control->raise(poison_);
}

/// The others are told first: to stop NCCL may take seconds.
void NcclCommunicator::poison(std::exception_ptr error) noexcept {
  abandon_all(std::move(error));
  if (options_.control) options_.control->tell_now();
  stop_kernels();
}

/// Stops the kernels that wait for peers. NCCL may hang in it when a driver has failed; then it is left alone.
void NcclCommunicator::stop_kernels() {
  ncclComm_t doomed = std::exchange(communicator_, nullptr);
  if (doomed == nullptr) return;
  std::packaged_task<ncclResult_t()> task([doomed] { return ncclCommAbort(doomed); });
  std::future<ncclResult_t> result = task.get_future();
  std::thread(std::move(task)).detach();
  const std::chrono::duration<double> bound =
      std::min<std::chrono::duration<double>>(std::chrono::seconds(5), options_.deadline / 10);
  result.wait_for(bound);
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
