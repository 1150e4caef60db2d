// SPDX-License-Identifier: Apache-2.0
#include "schedules/fiber.hpp"

#include <cxxabi.h>

#include <cstdint>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace lockstep::schedules {
namespace {

constexpr std::size_t stack_bytes = 256 * 1024;

/// Stacks are reused, because a run makes a few fibers, and there are a million runs.
std::vector<std::unique_ptr<std::byte[]>>& spare_stacks() {
  static std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

std::unique_ptr<std::byte[]> take_stack() {
  if (spare_stacks().empty()) return std::unique_ptr<std::byte[]>(new std::byte[stack_bytes]);
  auto stack = std::move(spare_stacks().back());
  spare_stacks().pop_back();
  return stack;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  getcontext(&here_);
  here_.uc_stack.ss_sp = stack_.get();
  here_.uc_stack.ss_size = stack_bytes;
  here_.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&here_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(address >> 32U),
              static_cast<unsigned>(address));
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_.get(), stack_bytes);
#endif
  spare_stacks().push_back(std::move(stack_));
}

void Fiber::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32U | low);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->outer_stack_, &self->outer_stack_bytes_);
#endif
  self->body_();
  self->done_ = true;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, self->outer_stack_, self->outer_stack_bytes_);
#endif
  self->swap(self->here_, self->there_);
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  void* own = nullptr;
  __sanitizer_start_switch_fiber(&own, stack_.get(), stack_bytes);
  swap(there_, here_);
  __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#else
  swap(there_, here_);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, outer_stack_, outer_stack_bytes_);
  swap(here_, there_);
  __sanitizer_finish_switch_fiber(fake_stack_, &outer_stack_, &outer_stack_bytes_);
#else
  swap(here_, there_);
#endif
}

void Fiber::swap(ucontext_t& from, const ucontext_t& to) {
  auto* const current = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  std::swap(*current, exceptions_);
  swapcontext(&from, &to);
}

}  // namespace lockstep::schedules
