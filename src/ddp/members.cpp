// SPDX-License-Identifier: Apache-2.0
#include "ddp/members.hpp"

#include "base/borders.hpp"

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
  backends::CommunicatorOptions values{
      .tuning = options.tuning,
      .check = options.check,
      .compress = options.compress,
      .plan = {.deadline = options.deadline, .observer = options.observer, .notice = options.notice}};
  auto failure = error_of([&] {
    values.method = exact ? *exact : backends::parse_method(options.algorithm);
    values.plan.sockets = backends::parse_sockets(options.sockets);
  });
  return {std::move(values), std::move(failure)};
}

std::unique_ptr<Communicator> Members::make(Progress& progress, Use use) {
  if (use == Use::first) return make_on_host(progress, options_);
  backends::CommunicatorOptions plain = options_;
  plain.compress.reset();
  plain.plan.observer = nullptr;
  plain.plan.notice = nullptr;
  return make_on_host(progress, plain);
}

}  // namespace lockstep::ddp
