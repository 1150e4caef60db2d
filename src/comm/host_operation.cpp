// SPDX-License-Identifier: Apache-2.0
#include "comm/host_operation.hpp"

#include <algorithm>
#include <string>

#include "comm/host_communicator.hpp"
#include "kernels/divide.hpp"

namespace lockstep::backends {

void HostOperation::describe(const Collective& collective) {
  kind_ = collective.kind;
  bytes_ = std::max(collective.in.bytes(), collective.out.bytes());
  label_ = collective.label;
  averaged_ = is_reduction(collective.kind) && collective.op == ReduceOp::average ? collective.out : Buffer();
}

void HostOperation::submit(Clock::time_point now) {
  restart();
  begun_ = false;
  has_advanced_ = true;
  submitted_ = now;
}

/// Ends the operation. Dividing the result in place is safe, because no rank reads another rank's result after its own
/// operation has ended.
void HostOperation::complete() {
  if (averaged_.count > 0) kernels::divide(averaged_, owner_->size());
  Operation::complete();
}

void HostOperation::poll() noexcept { owner_->poll(*this); }

std::string HostOperation::description() const {
  return std::string(name(kind_)) + (label_.empty() ? "" : " '" + label_ + "'") + " on rank " +
         std::to_string(owner_->rank().value);
}

ErrorContext HostOperation::identity() const {
  return {.operation = std::string(name(kind_)), .label = label_, .bytes = bytes_.value};
}

ErrorContext HostOperation::context() const {
  ErrorContext context = identity();
  if (begun_) add_pending(context);
  return context;
}

Span HostOperation::span(Clock::time_point now) const {
  return {.track = "communication",
          .name = label_.empty() ? name(kind_) : std::string_view(label_),
          .begin = submitted_,
          .end = now,
          .bytes = bytes_,
          .algorithm = algorithm()};
}

}  // namespace lockstep::backends
