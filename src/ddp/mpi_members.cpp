// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <utility>

#include "backends/make_communicator.hpp"
#include "backends/mpi_plan.hpp"
#include "backends/nccl.hpp"
#include "base/wire_protocol.hpp"
#include "ddp/members.hpp"
#include "ddp/on_gpus.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/agreement.hpp"
#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/make_node_memory.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep::ddp {
namespace {

backends::CommunicatorOptions back_end_options(const GroupOptions& options, const backends::Method& method,
                                               backends::Sockets sockets) {
  return {.method = method,
          .tuning = options.tuning,
          .deadline = options.deadline,
          .check = options.check,
          .observer = options.observer,
          .notice = options.notice,
          .compress = options.compress,
          .sockets = sockets};
}

/// Checks the MPI thread level. Every MPI call for a group is made under its Progress's lock: on two threads, but never
/// at the same time.
void check_thread_level(const GroupOptions& options) {
  if (!options.progress_thread || provided_thread_level() >= ThreadLevel::serialized) return;
  throw Error(ErrorCode::unsupported,
              "a progress thread needs MPI initialized with MPI_THREAD_SERIALIZED at least, better with "
              "MPI_THREAD_MULTIPLE: ask for that level, or do without the thread");
}

class MpiMembers : public Members {
 public:
  MpiMembers(MpiGroup group, const GroupOptions& options, backends::Method method, std::optional<int> gpu)
      : group_(std::move(group)),
        method_(std::move(method)),
        selection_(backends::agree_on_selection(
            group_, back_end_options(options, method_, backends::parse_sockets(options.sockets)))),
        sockets_(settled_sockets(options)),
        gpu_(gpu) {}

  [[nodiscard]] const std::string& host() const override { return group_.host(); }
  [[nodiscard]] std::optional<int> gpu() const override { return gpu_; }
  [[nodiscard]] std::shared_ptr<FlightRecorder> recorder() const override { return flight_recorder_of(group_); }
  [[nodiscard]] const std::optional<collectives::Selection>& selection() const override { return selection_; }

  std::unique_ptr<Communicator> make(Progress& progress, const GroupOptions& options) override {
    const Phase phase(group_, "making a communicator");
    return backends::make_communicator(group_, progress, back_end_options(options, method_, sockets_), selection_);
  }

  std::unique_ptr<Communicator> make_on_device(Progress& progress, const GroupOptions& options) override {
    const Phase phase(group_, "making a communicator on GPUs");
    if (!gpu_) gpu_ = agree_on_gpu(group_, options.gpus);
    const auto from_zero = [this](const std::vector<std::byte>& mine) {
      const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), mine.size());
      const std::string of_zero = broadcast_string(group_, bytes, {0});
      const auto* begin = reinterpret_cast<const std::byte*>(of_zero.data());
      return std::vector<std::byte>(begin, begin + of_zero.size());
    };
    return backends::make_nccl({.rank = group_.rank(),
                                .size = group_.size(),
                                .gpu = *gpu_,
                                .agree = [this](const std::optional<Error>& mine) { agree(group_, mine); },
                                .broadcast_from_zero = from_zero},
                               progress,
                               {.algorithm = nccl_algorithm(method_),
                                .deadline = options.deadline,
                                .check = options.check ? make_exchange(group_) : nullptr,
                                .control = make_control_channel(group_, group_.shape()),
                                .hostname = group_.host(),
                                .observer = options.observer});
  }

  std::unique_ptr<Members> split(std::optional<int> color, int key, Communicator& /*over*/,
                                 const GroupOptions& options) override {
    std::optional<MpiGroup> part = split_group(color, key);
    return part ? members_of(*std::move(part), options, gpu_) : nullptr;
  }

  void check_may_close() const override {
    if (group_.closed() || !mpi_has_ended()) return;
    throw Error(ErrorCode::invalid_argument, "close() after MPI_Finalize: close the group before MPI_Finalize",
                {.rank = group_.rank().value, .host = group_.host()});
  }

  void close() override { group_.close(); }

 private:
  [[nodiscard]] backends::Sockets settled_sockets(const GroupOptions& options) const {
    const backends::Sockets wish = backends::parse_sockets(options.sockets);
    return selection_ ? backends::settle_sockets(group_, wish, options.notice) : wish;
  }

  [[nodiscard]] std::optional<MpiGroup> split_group(std::optional<int> color, int key) const {
    const Phase phase(group_, "splitting a group");
    return group_.split(color, key);
  }

  MpiGroup group_;
  backends::Method method_;
  std::optional<collectives::Selection> selection_;
  backends::Sockets sockets_;
  std::optional<int> gpu_;  ///< chosen once for all communicators of this group and of groups split from it
};

}  // namespace

std::unique_ptr<Members> members_of(MpiGroup group, const GroupOptions& options, std::optional<int> gpu,
                                    const std::optional<backends::Method>& exact) {
  group.set_deadline(options.deadline);
  const Phase phase(group, "making a ProcessGroup");
  require_equal(group, {{"protocol", std::to_string(wire_protocol)},
                        {"device", std::string(name(options.device))},
                        {"algorithm", options.algorithm},
                        {"sockets", options.sockets}});
  require_device(options.device);
  const backends::Method method = exact ? *exact : backends::parse_method(options.algorithm);
  // All ranks check this first.
  if (options.device == Device::cuda) {
    agree(group, [&] {
      refuse_compression_on_gpus(options);
      (void)nccl_algorithm(method);
    });
  }
  auto members = std::make_unique<MpiMembers>(std::move(group), options, method, gpu);
  check_thread_level(options);
  return members;
}

}  // namespace lockstep::ddp
