// SPDX-License-Identifier: Apache-2.0
#include "nn/run/runner.hpp"

namespace lockstep::nn {

/// Waits for the device, which may wait for other ranks.
void Runner::settle() {
  while (!ops_.device().is_idle(queue_)) reducer_.progress();  // wait for timing only
}

template <typename Body>
void Runner::timed(const std::string& label, int lane, const Body& body) {
  if (observer_ == nullptr) return body();
  settle();
  const Clock::time_point begin = Clock::now();
  body();
  settle();
  const std::string track = lane <= 0 ? "compute" : "compute " + std::to_string(lane + 1);
  observer_->span({track, label, begin, Clock::now(), {}});
}

void Runner::submit(const Item& item) {
  const auto lane_of = [](const auto& kind) {
    if constexpr (requires { kind.lane; }) {
      return kind.lane;
    } else {
      return no_lane;
    }
  };
  const int lane = std::visit(lane_of, item);
  if (lane == no_lane || lanes_.count() == 1) return run_now(item);
  lanes_.add(lane, item);
}

void Runner::run_now(const Item& item) {
  std::visit([this](const auto& kind) { this->run(kind); }, item);
}

void Runner::run(const Join& /*item*/) {
  lanes_.run([this](const Item& item) { run_now(item); });
}

void Runner::run(const RunKernel& item) {
  timed(*item.label, item.lane, [&] { item.kernel->run(item.pass, *item.call); });
}

void Runner::run(const Update& item) {
  timed(*item.label, no_lane, [&] { ops_.update(item.step); });
}

}  // namespace lockstep::nn
