// SPDX-License-Identifier: Apache-2.0
#include "ddp/members.hpp"

#include "backends/nccl.hpp"
#include "base/borders.hpp"
#include "base/wire_protocol.hpp"
#include "ddp/on_gpus.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep {

std::string_view name(Device device) {
  if (device == Device::cuda) return "cuda";
  return device == Device::cpu ? "cpu" : "unknown";
}

}  // namespace lockstep

namespace lockstep::ddp {

void require_device(Device device) {
  if (device == Device::cpu || device == Device::cuda) return;
  throw Error(ErrorCode::invalid_argument, no_enumerator("Device", device) + ": choose cpu or cuda");
}

ParsedOptions parse(const GroupOptions& options, const std::optional<backends::Method>& exact) {
  ParsedOptions parsed;
  backends::CommunicatorOptions& values = parsed.values;
  values.tuning = options.tuning;
  values.check = options.check;
  values.compress = options.compress;
  values.plan.deadline = options.deadline;
  values.plan.observer = options.observer;
  values.plan.notice = options.notice;
  values.plan.checksum = options.checksum;
  parsed.failure = error_of([&] {
    values.method = exact ? *exact : backends::parse_method(options.algorithm);
    values.plan.sockets = backends::parse_sockets(options.sockets);
  });
  return parsed;
}

std::unique_ptr<Communicator> Members::make(Progress& progress, Use use) {
  if (use == Use::first) return make_on_host(progress, options_);
  backends::CommunicatorOptions plain = options_;
  plain.compress.reset();
  plain.plan.observer = nullptr;
  plain.plan.notice = nullptr;
  return make_on_host(progress, plain);
}

namespace {

/// Checks the MPI thread level. Every MPI call for a group is made under its Progress's lock: on two threads, but never
/// at the same time.
void check_thread_level(const RankSet& ranks, const GroupOptions& options) {
  if (!options.progress_thread || ranks.link().may_change_threads()) return;
  throw Error(ErrorCode::unsupported,
              "a progress thread needs MPI initialized with MPI_THREAD_SERIALIZED at least, better with "
              "MPI_THREAD_MULTIPLE: ask for that level, or do without the thread");
}

class ProcessMembers : public Members {
 public:
  ProcessMembers(RankSet group, backends::CommunicatorOptions options, std::optional<int> gpu)
      : Members(std::move(options)), group_(std::move(group)), has_ended_(group_.link().has_ended()), gpu_(gpu) {}

  [[nodiscard]] const std::string& host() const override { return group_.host(); }
  [[nodiscard]] std::optional<int> gpu() const override { return gpu_; }
  [[nodiscard]] std::shared_ptr<FlightRecorder> recorder() const override { return group_.link().recorder(); }
  [[nodiscard]] std::string explain_ranks() const override { return group_.explain_ranks(); }

  std::unique_ptr<Communicator> make_on_device(Progress& progress, Use use) override {
    const Phase phase(group_, "making a communicator on GPUs");
    const auto from_zero = [this](const std::vector<std::byte>& mine) {
      const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), mine.size());
      const std::string of_zero = broadcast_string(group_, bytes, {0});
      const auto* begin = reinterpret_cast<const std::byte*>(of_zero.data());
      return std::vector<std::byte>(begin, begin + of_zero.size());
    };
    return backends::make_nccl({.rank = group_.rank(),
                                .size = group_.size(),
                                .gpu = gpu_.value(),
                                .agree = [this](const std::optional<Error>& mine) { agree(group_, mine); },
                                .broadcast_from_zero = from_zero},
                               progress,
                               {.algorithm = nccl_algorithm(options().method),
                                .deadline = options().plan.deadline,
                                .check = options().check ? group_.link().make_exchange(group_) : nullptr,
                                .control = make_control_channel(group_, group_.shape()),
                                .hostname = group_.host(),
                                .observer = use == Use::first ? options().plan.observer : nullptr});
  }

  std::unique_ptr<Members> split(std::optional<int> color, int key, Communicator& /*over*/,
                                 const GroupOptions& options) override {
    std::optional<RankSet> part = split_group(color, key);
    return part ? members_of(*std::move(part), options, gpu_) : nullptr;
  }

  [[nodiscard]] HasEnded has_ended() const override { return has_ended_; }
  [[nodiscard]] bool may_change_threads() const override { return group_.link().may_change_threads(); }
  void check_may_close() const override {
    if (group_.closed() || !has_ended_()) return;
    throw Error(ErrorCode::invalid_argument, "close() after MPI_Finalize: close the group before MPI_Finalize",
                {.rank = group_.rank().value, .host = group_.host()});
  }

  void close() override { group_.close(); }

 private:
  std::unique_ptr<Communicator> make_on_host(Progress& progress, backends::CommunicatorOptions& options) override {
    const Phase phase(group_, "making a communicator");
    return backends::make_communicator(group_, progress, options);
  }
  [[nodiscard]] std::optional<RankSet> split_group(std::optional<int> color, int key) const {
    const Phase phase(group_, "splitting a group");
    return group_.split(color, key);
  }

  RankSet group_;
  HasEnded has_ended_;
  std::optional<int> gpu_;  ///< chosen once for all communicators of this group and of groups split from it
};

/// Checks options that are the same on all ranks. @throws Error on every rank
void check_equal_options(const GroupOptions& options, const ParsedOptions& parsed) {
  const std::optional<Error> failure = error_of([&] {
    require_device(options.device);
    if (parsed.failure) throw Error(*parsed.failure);
    if (options.device == Device::cpu) return;
    refuse_on_gpus(options);
    (void)nccl_algorithm(parsed.values.method);
  });
  if (failure) throw failure->on_every_rank();
}

}  // namespace

std::unique_ptr<Members> members_of(RankSet group, const GroupOptions& options, std::optional<int> gpu,
                                    const std::optional<backends::Method>& exact) {
  group.set_deadline(options.deadline);
  const Phase phase(group, "making a ProcessGroup");
  ParsedOptions parsed = parse(options, exact);
  const bool must_choose_gpus = options.device == Device::cuda && !gpu;
  Agreement agreement;
  agreement.add({{"protocol", std::to_string(wire_protocol)}, {"device", std::string(name(options.device))}});
  backends::add_terms(agreement, group, parsed.values);
  if (parsed.failure) agreement.add({{"algorithm", options.algorithm}, {"sockets", options.sockets}});
  agreement.add_check([&] { check_thread_level(group, options); });
  if (must_choose_gpus) add_gpus(agreement, group, options.gpus);
  agreement.exchange(group);
  (void)agreement.require_equal_terms();
  check_equal_options(options, parsed);
  agreement.throw_failed_checks();
  if (must_choose_gpus) gpu = agreed_gpu(agreement, group);
  backends::settle(group, agreement, parsed.values);
  return std::make_unique<ProcessMembers>(std::move(group), std::move(parsed.values), gpu);
}

}  // namespace lockstep::ddp
