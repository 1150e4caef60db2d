// SPDX-License-Identifier: Apache-2.0
// This file implements how a rank detects that NCCL has failed or waits in vain, and how the other ranks learn of it.
#include <future>
#include <numeric>
#include <system_error>

#include "backends/nccl/nccl_communicator.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "base/wrapped.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {
namespace {

/// How long an NCCL error waits for a report of its cause.
constexpr std::chrono::milliseconds time_for_cause{100};

}  // namespace

/// Polls the control channel. @throws Error if another rank's message ends this communicator
void NcclCommunicator::poll_control() {
  last_poll_ = progress_->now();
  if (!options_.control) return;
  options_.control->poll_messages();
  if (poison_) return;
  const ErrorContext what = under_way_.empty() ? ErrorContext() : under_way_.front()->context();
  if (const auto alarm = options_.control->heard()) throw alarm->of_operation(what);
  if (const auto early = options_.control->early_close(submitted_)) throw early->of_operation(what);
  for (const ControlChannel::Question& question : options_.control->questions()) {
    std::uint64_t& known = waits_for_[static_cast<std::size_t>(question.rank)];
    known = std::max(known, question.call.number + 1);
  }
  options_.control->questions().clear();
}

/// Checks for ranks of this node whose processes have ended, because such a rank sends no report.
void NcclCommunicator::check_peers(Clock::time_point now) {
  constexpr std::chrono::milliseconds between_checks{20};
  if (!options_.control || now - last_peer_check_ < between_checks) return;
  last_peer_check_ = now;
  if (const auto ended = options_.control->ended_peer())
    throw ended->of_operation(under_way_.empty() ? ErrorContext() : under_way_.front()->context());
}

ncclResult_t NcclCommunicator::asynchronous_state() const {
  ncclResult_t state = ncclSuccess;
  LOCKSTEP_NCCL_CHECK(CommGetAsyncError(communicator_, &state), communicator_);
  return state;
}

bool NcclCommunicator::has_failed() const {
  const ncclResult_t state = asynchronous_state();
  return state != ncclSuccess && state != ncclInProgress;
}

/// Throws if NCCL has failed. NCCL may notice a broken connection before this rank has received the reason: the rank at
/// fault, or one that knows it, reports to the others first and aborts NCCL afterwards. So this rank waits a moment for
/// the report.
void NcclCommunicator::check_health() {
  if (!has_failed()) return;
  const Clock::time_point now = progress_->now();
  if (!failed_since_) failed_since_ = now;
  poll_control();
  check_peers(now);
  if (options_.control && now - *failed_since_ < time_for_cause) return;
  if (has_failed()) throw_nccl_error(asynchronous_state(), "ncclCommGetAsyncError", communicator_);
}

/// Checks the deadline. Time during which the caller's queue holds the operation back does not count, nor does time in
/// which this rank did not poll, because it was not waiting for its peers then.
void NcclCommunicator::check_deadline(Clock::time_point now) {
  const bool was_away = now - last_check_ > options_.deadline / 10;
  last_check_ = now;
  if (was_away || !under_way_.front()->could_run()) last_advance_ = now;
  const std::chrono::duration<double> silent = now - last_advance_;
  if (silent > options_.deadline / 2) announce_wait();
  if (silent < options_.deadline) return;
  ErrorContext context = under_way_.front()->context();
  context.peers = not_waiting();
  throw Error(ErrorCode::timeout,
              format_text("nothing has moved for %.2f s: ", silent.count()) +
                  (context.peers.empty() ? "all ranks wait; has a GPU or the network failed?"
                                         : "these peers do not wait for this operation: check that they are alive and "
                                           "submit the same operations"),
              context);
}

/// Tells the other ranks that this one has waited for half the deadline. NCCL does not report which rank is missing, so
/// the ranks that have not told so are the suspects.
void NcclCommunicator::announce_wait() {
  if (!options_.control || announced_ > ended_) return;
  announced_ = ended_ + 1;
  std::vector<int> others(static_cast<std::size_t>(size()));
  std::iota(others.begin(), others.end(), 0);
  std::erase(others, rank().value);
  const CallSignature& ours = under_way_.front()->signature();
  options_.control->ask({.number = ended_, .what = ours.call, .hash = ours.hash}, others);
}

std::vector<int> NcclCommunicator::not_waiting() const {
  std::vector<int> ranks;
  for (int other = 0; options_.control && other < size(); ++other)
    if (other != rank().value && waits_for_[static_cast<std::size_t>(other)] <= ended_) ranks.push_back(other);
  return ranks;
}

void NcclCommunicator::abandon_all(std::exception_ptr error) noexcept {
  poison_ = std::move(error);
  for (const auto& operation : under_way_) {
    if (operation->state() == Operation::State::pending) operation->abandon(poison_);
  }
  if (options_.control) options_.control->raise(poison_);
}

/// Poisons the communicator with the error that is being handled. If NCCL has refused a call, the cause may be on
/// another rank, so this waits for its report as check_health() does.
void NcclCommunicator::give_up() noexcept {
  std::exception_ptr error = current_exception_of(rank().value, options_.hostname);
  try {
    std::rethrow_exception(error);
  } catch (const Error& mine) {
    const bool knows = mine.code() != ErrorCode::transport || mine.is_consequence() || !mine.context().peers.empty();
    try {
      if (!knows) wait_for_cause();
    } catch (...) {
      error = current_exception_of(rank().value, options_.hostname);
    }
  } catch (...) {  // not an Error of lockstep, so other ranks are not the cause
  }
  poison(std::move(error));
}

void NcclCommunicator::wait_for_cause() {
  const Clock::time_point until = Clock::now() + time_for_cause;
  while (options_.control && Clock::now() < until) {
    poll_control();
    check_peers(Clock::now());
    std::this_thread::yield();
  }
}

/// Poisons the communicator and reports to the others first, because aborting NCCL may take seconds.
void NcclCommunicator::poison(std::exception_ptr error) noexcept {
  abandon_all(std::move(error));
  if (options_.control) options_.control->tell_now();
  stop_kernels();
}

/// Stops the kernels that wait for peers. NCCL may hang in it when a driver has failed; then the thread is left behind.
void NcclCommunicator::stop_kernels() {
  ncclComm_t doomed = std::exchange(communicator_, nullptr);
  if (doomed == nullptr) return;
  registrations_->communicator = nullptr;
  std::packaged_task<ncclResult_t()> task([doomed, gpu = gpu_] {
    try {
      select_gpu(gpu);        // NCCL's calls must not begin with a context on another GPU
    } catch (const Error&) {  // the GPU has failed; its communicator is aborted all the same
    }
    return nccl().CommAbort(doomed);
  });
  std::future<ncclResult_t> result = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    return;  // no thread could be started, so the kernels continue to wait
  }
  const std::chrono::duration<double> bound =
      std::min<std::chrono::duration<double>>(std::chrono::seconds(5), options_.deadline / 10);
  result.wait_for(bound);
}

}  // namespace lockstep::backends
