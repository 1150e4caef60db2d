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
  values.plan.connections = options.connections;
  parsed.failure = error_of([&] {
    values.method = exact ? *exact : backends::parse_method(options.algorithm);
    values.plan.sockets = backends::parse_sockets(options.sockets);
  });
  return parsed;
}

Members::Members(RankSet ranks, backends::CommunicatorOptions options, std::optional<int> gpu)
    : ranks_(std::move(ranks)), options_(std::move(options)), has_ended_(ranks_.link().has_ended()), gpu_(gpu) {}

std::shared_ptr<FlightRecorder> Members::recorder() const { return ranks_.link().recorder(); }

bool Members::may_change_threads() const { return ranks_.link().may_change_threads(); }

std::unique_ptr<Communicator> Members::make(Progress& progress, Use use) {
  const Phase phase(ranks_, "making a communicator");
  if (use == Use::first) return backends::make_communicator(ranks_, progress, options_);
  backends::CommunicatorOptions plain = options_;
  plain.compress.reset();
  plain.plan.observer = nullptr;
  plain.plan.notice = nullptr;
  return backends::make_communicator(ranks_, progress, plain);
}

std::unique_ptr<Communicator> Members::make_on_device(Progress& progress, Use use) {
  const Phase phase(ranks_, "making a communicator on GPUs");
  const auto from_zero = [this](const std::vector<std::byte>& mine) {
    const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), mine.size());
    const std::string of_zero = broadcast_string(ranks_, bytes, {0});
    const auto* begin = reinterpret_cast<const std::byte*>(of_zero.data());
    return std::vector<std::byte>(begin, begin + of_zero.size());
  };
  return backends::make_nccl({.rank = ranks_.rank(),
                              .size = ranks_.size(),
                              .gpu = gpu_.value(),
                              .agree = [this](const std::optional<Error>& mine) { agree(ranks_, mine); },
                              .broadcast_from_zero = from_zero},
                             progress,
                             {.algorithm = nccl_algorithm(options_.method),
                              .deadline = options_.plan.deadline,
                              .check = options_.check ? ranks_.link().make_exchange(ranks_) : nullptr,
                              .control = make_control_channel(ranks_, ranks_.shape()),
                              .shape = ranks_.shape(),
                              .hostname = ranks_.host(),
                              .observer = use == Use::first ? options_.plan.observer : nullptr});
}

std::unique_ptr<Members> Members::split(std::optional<int> color, int key, const GroupOptions& options) {
  std::optional<RankSet> part;
  {
    const Phase phase(ranks_, "splitting a group");
    part = ranks_.split(color, key);
  }
  return part ? members_of(*std::move(part), options, gpu_) : nullptr;
}

void Members::check_may_close() const {
  if (ranks_.closed() || !has_ended_()) return;
  throw Error(ErrorCode::invalid_argument, "close() after MPI_Finalize: close the group before MPI_Finalize",
              {.rank = ranks_.rank().value, .host = ranks_.host()});
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

std::unique_ptr<Members> members_of(RankSet ranks, const GroupOptions& options, std::optional<int> gpu,
                                    const std::optional<backends::Method>& exact) {
  ranks.set_deadline(options.deadline);
  const Phase phase(ranks, "making a ProcessGroup");
  ParsedOptions parsed = parse(options, exact);
  const bool must_choose_gpus = options.device == Device::cuda && !gpu;
  Agreement agreement;
  agreement.add({{"protocol", std::to_string(wire_protocol)}, {"device", std::string(name(options.device))}});
  backends::add_terms(agreement, ranks, parsed.values);
  if (parsed.failure) agreement.add({{"algorithm", options.algorithm}, {"sockets", options.sockets}});
  agreement.add_check([&] { check_thread_level(ranks, options); });
  if (must_choose_gpus) add_gpus(agreement, ranks, options.gpus);
  agreement.exchange(ranks);
  (void)agreement.require_equal_terms();
  check_equal_options(options, parsed);
  agreement.throw_failed_checks();
  if (must_choose_gpus) gpu = agreed_gpu(agreement, ranks);
  backends::settle(ranks, agreement, parsed.values);
  return std::make_unique<Members>(std::move(ranks), std::move(parsed.values), gpu);
}

}  // namespace lockstep::ddp
