#include "backends/host/operation.hpp"

#include <algorithm>

namespace lockstep::backends {

void HostOperation::submit(const Collective& collective) {
  restart();
  kind_ = collective.kind;
  bytes_ = std::max(collective.in.bytes(), collective.out.bytes());
  label_ = collective.label;
  begun_ = false;
  submitted_ = last_advance_ = Clock::now();
}

ErrorContext HostOperation::identity() const {
  return {.operation = std::string(name(kind_)), .label = label_, .bytes = bytes_.value};
}

ErrorContext HostOperation::context() const {
  ErrorContext context = identity();
  if (begun_) add_pending(context);
  return context;
}

Span HostOperation::span() const {
  return {.track = "communication",
          .name = label_.empty() ? name(kind_) : std::string_view(label_),
          .begin = submitted_,
          .end = last_advance_,
          .bytes = bytes_,
          .algorithm = algorithm()};
}

}  // namespace lockstep::backends
