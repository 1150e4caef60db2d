// SPDX-License-Identifier: Apache-2.0
#include "comm/back_end.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/borders.hpp"
#include "comm/collective_parts.hpp"

namespace lockstep {

BackEnd::~BackEnd() {
  for (const auto& call : when_destroyed_) call();
}

void BackEnd::close_if_wanted() noexcept {
  if (std::uncaught_exceptions() > 0 || !may_close_ || !may_close_()) return;
  try {
    close();
  } catch (const std::exception&) {  // the communicator is destroyed without close(), so the other ranks fail
  }
}

Allocation BackEnd::allocate(Bytes bytes) { return allocate_host(bytes); }

std::shared_ptr<const void> BackEnd::register_memory(const Buffer& /*memory*/) { return nullptr; }

namespace {

std::string this_host() {
  std::array<char, 256> text{};
  return gethostname(text.data(), text.size() - 1) == 0 ? text.data() : "";
}

}  // namespace

Error BackEnd::refusal(ErrorCode code, const std::string& why, const Collective& collective) const {
  return {code,
          why,
          {.operation = std::string(name(collective.kind)),
           .label = std::string(collective.label),
           .rank = rank_.value,
           .host = this_host(),
           .bytes = std::max(bytes_at_most(collective.in.count, collective.in.dtype),
                             bytes_at_most(collective.out.count, collective.out.dtype))
                        .value}};
}

void BackEnd::refuse_child(std::string_view operation) const {
  origin_.require_here("the communicator",
                       {.operation = std::string(operation), .rank = rank_.value, .host = this_host()});
  std::abort();  // it is called in a child only
}

void BackEnd::check_queue(const Collective& collective, Queue queue) const {
  if (queue.is_host()) return;
  const Capabilities& can = capabilities();
  if (can.device_memory) return;
  throw refusal(ErrorCode::unsupported,
                std::string(can.backend) +
                    " works on the host, which does not wait for a stream: synchronize the stream before, and pass "
                    "Queue::host()",
                collective);
}

std::vector<Work> BackEnd::submit_group(std::span<const Collective> members) {
  std::vector<Work> works;
  works.reserve(members.size());
  for (const Collective& member : members) works.push_back(submit(member));
  return works;
}

namespace {

/// The preparation of a back end that keeps nothing between submissions: every start submits the operation again.
class Resubmission final : public Preparation {
 public:
  using Submit = std::function<Work(const Collective&)>;

  Resubmission(const Collective& collective, Submit submit)
      : collective_(collective), label_(collective.label), submit_(std::move(submit)) {
    collective_.label = label_;
    counts_.keep(collective_);
  }
  Work& start(Queue queue) override {
    collective_.queue = queue;
    work_.reset();
    return work_.emplace(submit_(collective_));
  }

 private:
  Collective collective_;
  std::string label_;
  KeptCounts counts_;
  Submit submit_;
  std::optional<Work> work_;
};

}  // namespace

std::unique_ptr<Preparation> BackEnd::make_preparation(const Collective& collective) {
  return std::make_unique<Resubmission>(collective, [this](const Collective& again) {
    check_queue(again, again.queue);
    return submit(again);
  });
}

}  // namespace lockstep
