// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_communicator.hpp"

#include "backends/nccl/nccl_library.hpp"
#include "platform/gpu/cuda.hpp"

namespace lockstep::backends {
namespace {

Allocation allocate_on(int gpu, Bytes bytes) {
  if (bytes < 0) {
    throw Error(ErrorCode::invalid_argument, "cannot allocate " + std::to_string(bytes.value) + " bytes");
  }
  if (bytes == 0) return {};
  select_gpu(gpu);
  const BesideCaptures beside;
  void* data = nullptr;
  const ncclResult_t code = nccl().MemAlloc(&data, static_cast<std::size_t>(bytes.value));
  if (code != ncclSuccess && gpu_memory().free < bytes)
    throw_out_of_memory(bytes, "ncclMemAlloc");  // NCCL does not tell it apart
  if (code != ncclSuccess) throw_nccl_error(code, "ncclMemAlloc", nullptr);
  Allocation memory(data, bytes, MemoryKind::device, [](void* p) {
    const BesideCaptures while_freed;
    nccl().MemFree(p);
  });
  clear_now(memory.as(DType::uint8));
  return memory;
}

std::optional<NcclCallConfig> call_config_of(NcclAlgorithm algorithm) {
  NcclCallConfig config;
  switch (algorithm) {
    case NcclAlgorithm::ring: config.algorithms = "RING_LL,RING_LL128,RING_SIMPLE"; return config;
    case NcclAlgorithm::tree: config.algorithms = "TREE_LL,TREE_LL128,TREE_SIMPLE"; return config;
    default: return std::nullopt;
  }
}

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclGroup& group, const ncclUniqueId& id, Progress& progress,
                                   NcclOptions options)
    : BackEnd(group.rank, group.size),
      options_(std::move(options)),
      gpu_(group.gpu),
      progress_(&progress),
      waits_for_(static_cast<std::size_t>(group.size)),
      registrations_(std::make_shared<RegistrationOwner>(RegistrationOwner{&progress})) {
  try {
    start(group, id);
  } catch (...) {  // the other ranks may be waiting for this one
    give_up();
    defer();
    std::rethrow_exception(poison_);
  }
  progress_->add(*this);
}

void NcclCommunicator::start(const NcclGroup& group, const ncclUniqueId& id) {
  resources_ = std::make_unique<Resources>();
  resources_->control = options_.control;
  // The scratch is allocated here rather than at its first use, because allocating waits for the GPU, which might then
  // be waiting for other ranks. A single rank has nothing to reduce.
  if (options_.algorithm == NcclAlgorithm::tree_order) {
    capabilities_.no_leaves = {};
    if (options_.shape.ranks() == 0) options_.shape.node_of_rank.assign(static_cast<std::size_t>(group.size), 0);
    if (group.size > 1) resources_->scratch = allocate_device(options_.scratch);
  }
  if (nccl().all_reduce_by != nullptr) all_reduce_config_ = call_config_of(options_.algorithm);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t code = nccl().CommInitRankConfig(&resources_->made, group.size, id, group.rank.value, &config);
  communicator_ = resources_->made;  // after an error, too: it is there to be aborted
  if (code != ncclSuccess && code != ncclInProgress) throw_nccl_error(code, "ncclCommInitRankConfig", nullptr);
  wait_until_idle("make_nccl");
  registrations_->communicator = communicator_;
  resources_->check = options_.check;
}

NcclCommunicator::~NcclCommunicator() {
  registrations_->progress = nullptr;
  progress_->remove(*this);
  if (closed_) return;
  if (std::uncaught_exceptions() == 0) {
    progress_->say("rank " + std::to_string(rank().value) +
                   ": a communicator (nccl) was destroyed without close(); its resources stay in use");
  }
  // A wait on this rank or on another one must end, because nobody advances these operations any more.
  const Error error(ErrorCode::transport, "the communicator was destroyed before close()",
                    {.rank = rank().value, .host = options_.hostname});
  if (!poison_) abandon_all(std::make_exception_ptr(error));
  defer();
}

/// Leaks the resources that the GPU and other ranks may still be using.
void NcclCommunicator::defer() {
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
  if (!progress_->is_known_to_be_of_this_thread()) return options_.control->tell_from_another_thread();
  const Progress::Exclusive exclusive(*progress_);
  options_.control->tell_now();
}

Allocation NcclCommunicator::allocate(Bytes bytes) {
  try {
    return allocate_on(gpu_, bytes);
  } catch (const Error& error) {
    throw error.reported_by(rank().value, options_.hostname)
        .of_operation({.operation = "allocate", .bytes = bytes.value});
  }
}

std::shared_ptr<const void> NcclCommunicator::register_memory(const Buffer& memory) {
  // The kernels for such memory are neither a ring nor a tree.
  const bool is_useful = size() > 1 && options_.algorithm == NcclAlgorithm::automatic && memory.bytes() > 0;
  if (!is_useful || !nccl().windows.exist()) return nullptr;
  check_thread("register memory");
  launch_all();  // NCCL takes no call while it launches an operation
  const Progress::Exclusive exclusive(*progress_);
  check_usable("register memory");
  auto window = std::make_unique<NcclWindows::Window>(nullptr);
  try {
    const ncclResult_t code =
        nccl().windows.register_window(communicator_, memory.data, static_cast<std::size_t>(memory.bytes().value),
                                       window.get(), NcclWindows::symmetric);
    if (code != ncclSuccess && code != ncclInProgress) throw_nccl_error(code, "ncclCommWindowRegister", communicator_);
    wait_until_idle("register memory");
  } catch (...) {
    static_cast<void>(window.release());  // NCCL may still write it
    if (!poison_) give_up();
    std::rethrow_exception(poison_);
  }
  if (*window == nullptr) return nullptr;  // these GPUs do not reach each other's memory
  return {*window, [owner = registrations_](NcclWindows::Window registered) {
            if (owner->progress == nullptr) return;
            const Progress::Exclusive alone(*owner->progress);
            if (owner->communicator == nullptr) return;  // NCCL has forgotten it with its communicator
            const BesideCaptures beside;
            nccl().windows.deregister_window(owner->communicator, registered);
          }};
}

void NcclCommunicator::close() {
  const Progress::Exclusive exclusive(*progress_);
  if (closed_) return;
  on_tick(progress_->now());
  progress();  // operations that only a stream has waited for may have ended without the host's knowledge
  if (poison_) std::rethrow_exception(poison_);
  if (!under_way_.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "close() while an operation is under way: wait for its Work first; "
                "DataParallel::finish() waits for buckets",
                under_way_.front()->context());
  }
  try {
    if (options_.control) options_.control->leave(submitted_);
    LOCKSTEP_NCCL_CHECK(CommFinalize(communicator_), communicator_);
    wait_until_idle("close");
    registrations_->communicator = nullptr;
    LOCKSTEP_NCCL_CHECK(CommDestroy(std::exchange(communicator_, nullptr)), nullptr);
    if (options_.check) options_.check->close();
  } catch (...) {
    if (!poison_) give_up();
    std::rethrow_exception(poison_);
  }
  closed_ = true;
  if (options_.control) close_when_all_have_left(options_.control, *progress_);
}

bool NcclCommunicator::progress() noexcept {
  if (idle()) return false;
  try {
    return advance();
  } catch (...) {
    give_up();
  }
  return true;
}

bool NcclCommunicator::on_tick(Clock::time_point now) noexcept {
  if (closed_) return false;
  try {
    poll_control();
    // A replayed graph can fail, or wait for a rank that has ended, while no operation is under way here.
    check_peers(now);
    if (communicator_ != nullptr) check_health();
    if (!idle()) check_deadline(now);
    return false;
  } catch (...) {
    if (!poison_) give_up();
  }
  return true;
}

bool NcclCommunicator::advance() {
  select_gpu(gpu_);  // a progress thread has selected no GPU
  check_health();
  if (failed_since_) return false;
  bool moved = false;
  while (launch_next()) moved = true;
  while (advance_front()) moved = true;
  if (moved) last_advance_ = progress_->now();
  return moved;
}

/// Retires the oldest operation if the stream has passed it.
bool NcclCommunicator::advance_front() {
  if (launched_ == 0 || !under_way_.front()->check_finished()) return false;
  if (options_.observer != nullptr && !under_way_.front()->is_captured())
    options_.observer->span(under_way_.front()->span(Clock::now()));
  under_way_.front()->record_end(progress_->recorder());
  if (!is_message(under_way_.front()->kind())) ++ended_;
  under_way_.pop_front();
  --launched_;
  if (compared_ > 0) --compared_;
  return true;
}

void NcclCommunicator::launch_all() {
  progress_->wait([this] { return poison_ != nullptr || launched_ == under_way_.size(); });
}

/// Waits for NCCL while the communicator is made or closed and has no operation to advance; other communicators may
/// have some.
void NcclCommunicator::wait_until_idle(const char* doing) {
  const auto is_idle = [this] {
    if (poison_) std::rethrow_exception(poison_);  // a poll while it waited has ended the communicator
    check_health();
    if (options_.control) {
      options_.control->poll_messages();  // nobody else polls for a communicator that is still being made
      if (const auto alarm = options_.control->heard()) throw Error(*alarm);
    }
    return !failed_since_ && !busy();
  };
  const auto until = progress_->now() + std::chrono::duration_cast<Clock::duration>(options_.deadline);
  if (progress_->wait_until(is_idle, until)) return;
  const bool closes = std::string_view(doing) == "close";
  throw Error(ErrorCode::timeout,
              std::string("NCCL did not get ready within the deadline: did every rank come here?") +
                  (closes ? " Was every CUDA graph with operations of this group destroyed before?" : ""),
              {.operation = doing, .rank = rank().value, .host = options_.hostname});
}

}  // namespace lockstep::backends
