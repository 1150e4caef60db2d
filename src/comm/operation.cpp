// SPDX-License-Identifier: Apache-2.0
#include "comm/operation.hpp"

#include <algorithm>

namespace lockstep {

void NamedOperation::name_after(const Collective& collective) {
  kind_ = collective.kind;
  bytes_ = std::max(collective.in.bytes(), collective.out.bytes());
  label_ = collective.label;
}

void NamedOperation::restart_at(Clock::time_point now, FlightRecorder* recorder) {
  restart();
  record_.reset();
  if (recorder != nullptr) record_ = recorder->begin(kind_, label_, bytes_);
  submitted_ = now;
}

void NamedOperation::record_end(FlightRecorder* recorder) {
  if (recorder != nullptr && record_) recorder->end(*std::exchange(record_, std::nullopt));
}

ErrorContext NamedOperation::identity() const {
  return {.operation = std::string(name(kind_)), .label = label_, .bytes = bytes_.value};
}

std::string NamedOperation::description() const {
  return std::string(name(kind_)) + (label_.empty() ? "" : " '" + label_ + "'") + " on rank " +
         std::to_string(rank_.value);
}

Span NamedOperation::span(Clock::time_point now) const {
  return {.track = "communication",
          .name = label_.empty() ? name(kind_) : std::string_view(label_),
          .begin = submitted_,
          .end = now,
          .bytes = bytes_,
          .algorithm = algorithm()};
}

}  // namespace lockstep
