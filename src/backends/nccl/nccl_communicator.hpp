// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nccl.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "backends/nccl/tree_order_all_reduce.hpp"
#include "comm/back_end.hpp"
#include "comm/call_signature.hpp"
#include "comm/operation.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/collective.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::backends {

class NcclCommunicator;

/// What a registration of memory knows of its communicator, which may be gone before it.
struct RegistrationOwner {
  Progress* progress;                 ///< null once the communicator is destroyed
  ncclComm_t communicator = nullptr;  ///< null while NCCL has none; changes while nobody else polls
};

/// One operation on the communicator's stream. Objects are reused, with their events, so that a training step creates
/// none.
///
/// Its stages: queued, an earlier operation is still being launched; launching, NCCL has its first part, and may be
/// making connections in the background (only an all-reduce in tree order has more than one part); running, the stream
/// has all of it, and ends with `finished_`.
///
/// If the caller's queue is captured, the same calls put the operation into the graph: `ready_` joins the
/// communicator's stream to the capture, and `finished_` leads out of it. Such events mark places in the graph, and the
/// host must not query them. For the host, the operation ends when it is captured.
class NcclOperation : public NamedOperation {
 public:
  enum class Stage { queued, launching, running };

  explicit NcclOperation(NcclCommunicator& owner);

  /// Records what to do, and marks the end of what the caller's queue holds now.
  /// @param tree_order   of an all-reduce in tree order
  /// @param is_captured  whether the caller's queue is captured
  /// @param recorder     null if operations are not recorded
  void submit(const Collective& collective, std::optional<TreeOrderAllReduce> tree_order, bool is_captured,
              FlightRecorder* recorder);
  /// Hands the next part to NCCL; the first one is ordered after the caller's queue.
  /// @param token  an int32 in device memory, for barriers
  /// @pre NCCL has put the previous part on the stream
  void launch_next_part(ncclComm_t communicator, Queue stream, void* token);
  [[nodiscard]] bool all_launched() const;
  /// Records that NCCL has put the last part on the stream.
  void mark_launched(Queue stream);
  /// Completes if the stream has passed it, or fails if it was captured into a graph. @return whether it has ended
  bool check_finished();
  /// Hands one more of the following operations to NCCL together with this one. @pre each has one part
  void extend_launch() { ++launch_size_; }
  /// The number of operations that are handed to NCCL together, from this one on.
  [[nodiscard]] std::size_t launch_size() const { return launch_size_; }

  /// Returns whether all the work that it was ordered after is done.
  [[nodiscard]] bool could_run() const { return collective_.queue.is_host() || is_captured_ || ready_.reached(); }
  [[nodiscard]] bool is_captured() const { return is_captured_; }
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] const CallSignature& signature() const { return signature_; }
  /// Returns whether the comparison of this call is done, see CallCheck. @throws Error{mismatch}
  [[nodiscard]] bool is_compared(CallCheck& check) { return check.poll(collective_.kind, counts_); }
  [[nodiscard]] ErrorContext context() const;

  bool order_after(Queue queue) override;

 private:
  void call_nccl(ncclComm_t communicator, cudaStream_t stream, void* token) const;
  void call_group(ncclComm_t communicator, cudaStream_t stream) const;
  void gather_or_scatter(ncclComm_t communicator, cudaStream_t stream) const;
  void all_to_all(ncclComm_t communicator, cudaStream_t stream) const;
  void message(ncclComm_t communicator, cudaStream_t stream) const;
  void by_part(ncclComm_t communicator, cudaStream_t stream) const;
  void all_to_all_v(ncclComm_t communicator, cudaStream_t stream) const;

  NcclCommunicator* owner_;
  Collective collective_;
  KeptCounts counts_;
  CallSignature signature_;
  std::optional<TreeOrderAllReduce> tree_order_;
  Stage stage_ = Stage::queued;
  std::size_t launch_size_ = 1;
  bool is_captured_ = false;
  Event ready_;
  Event finished_;
};

/// A communicator over NCCL. Operations reach NCCL one by one, and part by part, because a non-blocking communicator
/// accepts no call while it is busy with another; its stream then runs them in that order.
class NcclCommunicator : public BackEnd, private ProgressSource {
 public:
  /// Waits for all ranks. @throws as make_nccl
  NcclCommunicator(const NcclGroup& group, const ncclUniqueId& id, Progress& progress, NcclOptions options);
  ~NcclCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  Allocation allocate(Bytes bytes) override;
  std::shared_ptr<const void> register_memory(const Buffer& memory) override;
  void abort(std::string_view why) noexcept override;
  void close() override;
  Work submit(const Collective& collective) override;
  std::vector<Work> submit_group(std::span<const Collective> members) override;

  /// Waits, no longer than the deadline, until the stream has all that was submitted, or has failed.
  void launch_all();
  /// How all-reduces are told their algorithm; null where NCCL chooses it, or knows it since the communicator was made.
  [[nodiscard]] const NcclCallConfig* all_reduce_config() const {
    return all_reduce_config_ ? &*all_reduce_config_ : nullptr;
  }

 private:
  /// Resources that the GPU or a thread of NCCL may still be using when a communicator is given up.
  struct Resources {
    ncclComm_t made = nullptr;  // NCCL writes it at once, and a second time on a thread of its own
    // Blocks of computing kernels would fill the GPU first, and buckets would wait for them.
    Stream stream{StreamPriority::highest};
    Allocation token = allocate_device({static_cast<std::int64_t>(sizeof(std::int32_t))});  // barriers reduce it
    Allocation scratch;  // all-reduces in tree order use it one after the other, as the stream runs them
    std::vector<std::shared_ptr<NcclOperation>> pool;
    std::shared_ptr<Exchange> check;
    std::shared_ptr<ControlChannel> control;
  };

  bool progress() noexcept override;
  bool on_tick(Clock::time_point now) noexcept override;
  [[nodiscard]] bool idle() const noexcept override { return under_way_.empty() || poison_ != nullptr; }

  void start(const NcclGroup& group, const ncclUniqueId& id);
  void defer();
  void poll_before_submission();
  void check_thread(std::string_view operation) const;
  void check_usable(std::string_view operation);
  bool check_capture(std::span<const Collective> members);
  [[nodiscard]] bool is_in_tree_order(const Collective& collective) const;
  [[nodiscard]] std::optional<TreeOrderAllReduce> tree_order_of(const Collective& collective) const;
  std::vector<std::shared_ptr<NcclOperation>> enqueue(std::span<const Collective> members);
  void launch_what_can_be();
  void capture_all();
  bool advance();
  bool advance_front();
  bool launch_next();
  bool launch_next_part();
  bool compare_up_to(std::size_t end);
  bool compare(NcclOperation& next);
  void check_health();
  void poll_control();
  void check_peers(Clock::time_point now);
  void check_deadline(Clock::time_point now);
  void announce_wait();
  [[nodiscard]] std::vector<int> not_waiting() const;
  void abandon_all(std::exception_ptr error) noexcept;
  void give_up() noexcept;
  void wait_for_cause();
  void poison(std::exception_ptr error) noexcept;
  void stop_kernels();
  [[nodiscard]] ncclResult_t asynchronous_state() const;
  [[nodiscard]] bool busy() const { return asynchronous_state() == ncclInProgress; }
  [[nodiscard]] bool has_failed() const;
  void wait_until_idle(const char* doing);
  [[nodiscard]] Error misuse(std::string_view operation, const std::string& why) const;
  [[nodiscard]] std::shared_ptr<NcclOperation> idle_operation();

  // What the kernel that adds in tree order takes as well.
  static constexpr std::array dtypes = {DType::float32, DType::float64, DType::int32,   DType::int64,
                                        DType::uint8,   DType::float16, DType::bfloat16};
  static constexpr std::array ops = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product, ReduceOp::average};

  Capabilities capabilities_{.backend = "nccl",
                             .host_memory = false,
                             .device_memory = true,
                             .no_average =
                                 "NCCL's own divides each operand, which rounds otherwise than a sum that "
                                 "is divided; divide the sums",
                             .no_leaves = "NCCL adds in an order of its own; choose the algorithm tree-order",
                             .no_scan = "NCCL has none; scan buffers in host memory",
                             .dtypes = dtypes,
                             .ops = ops,
                             .messages_take_turns = true};
  NcclOptions options_;
  int gpu_;
  Progress* progress_;
  std::unique_ptr<Resources> resources_;
  ncclComm_t communicator_ = nullptr;
  std::deque<std::shared_ptr<NcclOperation>> under_way_;  // in the order of submission
  CallCheck comparison_;
  bool is_comparing_ = false;    // whether a comparison is in progress, which is that of the first uncompared operation
  std::size_t compared_ = 0;     // how many of under_way_ have been compared, if ranks compare
  std::size_t launched_ = 0;     // how many of under_way_ the stream has
  std::uint64_t submitted_ = 0;  // number of operations submitted, without messages
  std::uint64_t ended_ = 0;      // how many of these have ended
  std::uint64_t announced_ = 0;  // 1 + the last of these that this rank has told others it waits for
  std::vector<std::uint64_t> waits_for_;           // the same number for each other rank, as far as it has told
  std::optional<Clock::time_point> failed_since_;  // when NCCL reported a failure
  Clock::time_point last_advance_;
  Clock::time_point last_check_;
  Clock::time_point last_poll_;
  Clock::time_point last_peer_check_;
  std::exception_ptr poison_;
  bool closed_ = false;
  std::shared_ptr<RegistrationOwner> registrations_;
  std::optional<NcclCallConfig> all_reduce_config_;
};

}  // namespace lockstep::backends
