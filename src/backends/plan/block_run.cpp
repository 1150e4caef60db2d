#include "backends/plan/block_run.hpp"

#include <algorithm>
#include <cstring>
#include <variant>

#include "lockstep/kernels/reduce.hpp"

namespace lockstep::backends {

using collectives::Copy;
using collectives::Fill;
using collectives::Memory;
using collectives::Range;
using collectives::Receive;
using collectives::ReceiveReduce;
using collectives::Reduce;
using collectives::Send;

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void BlockRun::start(const CompiledPlan& plan, const collectives::BlockView& view, const Operands& operands, int tag) {
  plan_ = &plan;
  view_ = view;
  operands_ = operands;
  tag_ = tag;
  left_ = static_cast<int>(plan.steps().size());
  waits_.assign(plan.waits().begin(), plan.waits().end());
  ready_.clear();
  ready_.reserve(plan.steps().size());
  flights_.reserve(plan.steps().size());
  next_ready_ = 0;
  const std::int64_t width = size_of(operands.dtype);
  const std::int64_t scratch_bytes = aligned(plan.scratch().value * width);
  const std::int64_t needed = scratch_bytes + collectives::landing_buffers * aligned(plan.landing().value * width);
  if (memory_.bytes().value < needed) memory_ = allocate_host({needed});
  scratch_ = static_cast<std::byte*>(memory_.data());
  landings_ = scratch_ + scratch_bytes;
  for (int step = 0; step < left_; ++step) {
    if (waits_[static_cast<std::size_t>(step)] == 0) ready_.push_back(step);
  }
  post_ready();
}

bool BlockRun::advance() {
  if (done()) return false;
  bool moved = false;
  for (std::size_t i = 0; i < flights_.size();) {
    if (!medium_->test(flights_[i].ticket)) {
      ++i;
      continue;
    }
    const int step = flights_[i].step;
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(step);
    moved = true;
  }
  if (moved) post_ready();
  return moved;
}

BlockRun::Pending BlockRun::pending() const {
  const auto earliest = std::min_element(flights_.begin(), flights_.end(),
                                         [](const Flight& a, const Flight& b) { return a.step < b.step; });
  if (earliest == flights_.end()) return {-1, -1};
  const auto peer = Overloaded{[](const Send& s) { return s.peer; }, [](const Receive& r) { return r.peer; },
                               [](const ReceiveReduce& r) { return r.peer; }, [](const auto&) { return -1; }};
  return {earliest->step, std::visit(peer, plan_->steps()[static_cast<std::size_t>(earliest->step)])};
}

void BlockRun::post_ready() {
  while (next_ready_ < ready_.size()) post(ready_[next_ready_++]);
}

void BlockRun::post(int step) {
  const auto message = [&](Medium::Ticket ticket) { flights_.push_back({step, ticket}); };
  const auto local = [&](const Range& range, const auto& work) {
    work(Count{range.count});
    finish(step);
  };
  std::visit(
      Overloaded{[&](const Send& s) { message(medium_->send({s.peer}, tag_, source(s.from), bytes(s.from))); },
                 [&](const Receive& r) { message(medium_->receive({r.peer}, tag_, address(r.to), bytes(r.to))); },
                 [&](const ReceiveReduce& r) { message(medium_->receive({r.peer}, tag_, landing(step), bytes(r.to))); },
                 [&](const Copy& c) {
                   local(c.to, [&](Count) {
                     if (c.to.count > 0)
                       std::memcpy(address(c.to), source(c.from), static_cast<std::size_t>(bytes(c.to).value));
                   });
                 },
                 [&](const Reduce& r) {
                   local(r.to, [&](Count n) {
                     kernels::reduce(address(r.to), address(r.to), source(r.from), n, operands_.dtype, operands_.op);
                   });
                 },
                 [&](const Fill& f) {
                   local(f.to,
                         [&](Count n) { kernels::fill_neutral(address(f.to), n, operands_.dtype, operands_.op); });
                 }},
      plan_->steps()[static_cast<std::size_t>(step)]);
  release(plan_->after_started(step));
}

void BlockRun::finish(int step) {
  if (const auto* r = std::get_if<ReceiveReduce>(&plan_->steps()[static_cast<std::size_t>(step)])) {
    kernels::reduce(address(r->to), landing(step), source(r->own), {r->to.count}, operands_.dtype, operands_.op);
  }
  --left_;
  release(plan_->after_done(step));
}

void BlockRun::release(const std::vector<int>& followers) {
  for (const int follower : followers) {
    if (--waits_[static_cast<std::size_t>(follower)] == 0) ready_.push_back(follower);
  }
}

std::byte* BlockRun::address(const Range& range) const {
  const std::int64_t width = size_of(operands_.dtype);
  if (range.memory == Memory::scratch) return scratch_ + range.offset * width;
  return operands_.output + view_(range.offset) * width;
}

const std::byte* BlockRun::source(const Range& range) const {
  if (range.memory != Memory::input) return address(range);
  return operands_.input + view_(range.offset) * size_of(operands_.dtype);
}

std::byte* BlockRun::landing(int step) {
  return landings_ + plan_->landing_slot(step) * aligned(plan_->landing().value * size_of(operands_.dtype));
}

}  // namespace lockstep::backends
