// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/nccl.hpp"
#include "backends/nccl/nccl_operation.hpp"
#include "comm/back_end.hpp"
#include "comm/operation.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::backends {

/// A communicator over NCCL. Operations reach NCCL one by one, and part by part, because a non-blocking communicator
/// accepts no call while it is busy with another; its stream then runs them in that order.
class NcclCommunicator : public BackEnd, private ProgressSource {
 public:
  /// Waits for all ranks. @throws as make_nccl
  NcclCommunicator(const NcclGroup& group, const ncclUniqueId& id, Progress& progress, NcclOptions options);
  ~NcclCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  Allocation allocate(Bytes bytes) override;
  void abort(std::string_view why) noexcept override;
  void close() override;
  Work submit(const Collective& collective) override;
  std::vector<Work> submit_group(std::span<const Collective> members) override;

  /// Waits, no longer than the deadline, until the stream has all that was submitted, or has failed.
  void launch_all();

 private:
  /// Resources that the GPU may still be using when a communicator is given up.
  struct Resources {
    Stream stream;
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
  void look_before_submission();
  void check_thread(std::string_view operation) const;
  void check_usable(std::string_view operation);
  bool look_for_capture(std::span<const Collective> members);
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
  void say_that_it_waits();
  [[nodiscard]] std::vector<int> not_waiting() const;
  void abandon_all(std::exception_ptr error) noexcept;
  void give_up() noexcept;
  void wait_for_news();
  void poison(std::exception_ptr error) noexcept;
  void stop_kernels();
  [[nodiscard]] ncclResult_t asynchronous_state() const;
  [[nodiscard]] bool busy() const { return asynchronous_state() == ncclInProgress; }
  [[nodiscard]] bool has_failed() const;
  void wait_until_idle(const char* doing);
  [[nodiscard]] Error misuse(std::string_view operation, const std::string& why) const;
  [[nodiscard]] std::shared_ptr<NcclOperation> idle_operation();

  Capabilities capabilities_{.backend = "nccl",
                             .host_memory = false,
                             .device_memory = true,
                             .no_average =
                                 "NCCL's own divides each operand, which rounds otherwise than a sum that "
                                 "is divided; divide the sums",
                             .no_leaves = "a rank has one operand",
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
  std::uint64_t said_ = 0;       // 1 + the last of these that this rank has told others it waits for
  std::vector<std::uint64_t> waits_for_;           // the same number for each other rank, as far as it has told
  std::optional<Clock::time_point> failed_since_;  // when NCCL reported a failure
  Clock::time_point last_advance_;
  Clock::time_point last_check_;
  Clock::time_point last_poll_;
  Clock::time_point last_look_at_peers_;
  std::exception_ptr poison_;
  bool closed_ = false;
};

}  // namespace lockstep::backends
