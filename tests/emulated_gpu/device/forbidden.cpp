// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/device/forbidden.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "emulated_gpu/device/violation.hpp"

namespace emulated_gpu {
namespace {

constexpr std::uintptr_t page_bytes = 4096;
constexpr greg_t trap_flag = 0x100;

/// A lock that the signal handler also takes. Its holder accesses no memory that could fault.
class SpinLock {
 public:
  void lock() {
    while (taken_.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  void unlock() { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_;
};

struct Range {
  std::size_t bytes;
  std::string why;
};

struct Forbidden {
  SpinLock lock;
  std::multimap<std::uintptr_t, Range> ranges;
  std::map<std::uintptr_t, int> pages;  // number of ranges that touch each page
};

Forbidden& forbidden() {
  static auto* all = new Forbidden;
  return *all;
}

struct sigaction before_segv;
struct sigaction before_trap;
void (*explain_other)(const std::byte*, bool) = nullptr;

/// The pages that this thread's instruction has opened.
struct Stepped {
  std::array<std::uintptr_t, 4> pages;
  std::size_t count;
};
thread_local Stepped stepped{};

std::uintptr_t page_of(std::uintptr_t address) { return address / page_bytes * page_bytes; }

void protect_page(std::uintptr_t page, int protection) {
  mprotect(reinterpret_cast<void*>(page), page_bytes, protection);
}

template <typename Visit>
void for_each_page(const std::byte* address, std::size_t bytes, Visit visit) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t page = page_of(begin); page < begin + bytes; page += page_bytes) visit(page);
}

/// Returns why the host may not access this byte; empty if it may.
std::string why_not(std::uintptr_t address) {
  for (const auto& [begin, range] : forbidden().ranges)
    if (address >= begin && address < begin + range.bytes) return range.why;
  return {};
}

void pass_on(const struct sigaction& before, int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the instruction then faults again
}

void on_fault(int signal, siginfo_t* info, void* context) {
  auto* user = static_cast<ucontext_t*>(context);
  const bool is_write = (user->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::uintptr_t page = page_of(address);
  std::unique_lock lock(forbidden().lock);
  if (forbidden().pages.count(page) != 0) {
    if (const std::string why = why_not(address); !why.empty()) {
      violation((is_write ? "the host writes" : "the host reads") + std::string(" pinned memory too early: ") + why);
    }
    if (stepped.count < stepped.pages.size()) {
      protect_page(page, PROT_READ | PROT_WRITE);
      stepped.pages[stepped.count++] = page;
      user->uc_mcontext.gregs[REG_EFL] |= trap_flag;
      return;
    }
  }
  lock.unlock();
  explain_other(static_cast<const std::byte*>(info->si_addr), is_write);
  pass_on(before_segv, signal, info, context);
}

void on_step(int signal, siginfo_t* info, void* context) {
  if (stepped.count == 0) return pass_on(before_trap, signal, info, context);
  const std::scoped_lock lock(forbidden().lock);
  for (; stepped.count > 0; --stepped.count) {
    const std::uintptr_t page = stepped.pages[stepped.count - 1];
    if (forbidden().pages.count(page) != 0) protect_page(page, PROT_NONE);
  }
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~trap_flag;
}

}  // namespace

void forbid_range(const std::byte* address, std::size_t bytes, const std::string& why) {
  const std::scoped_lock lock(forbidden().lock);
  forbidden().ranges.emplace(reinterpret_cast<std::uintptr_t>(address), Range{bytes, why});
  for_each_page(address, bytes, [](std::uintptr_t page) {
    if (forbidden().pages[page]++ == 0) protect_page(page, PROT_NONE);
  });
}

void allow_range(const std::byte* address, std::size_t bytes) {
  const std::scoped_lock lock(forbidden().lock);
  auto [first, last] = forbidden().ranges.equal_range(reinterpret_cast<std::uintptr_t>(address));
  for (; first != last && first->second.bytes != bytes;) ++first;
  if (first == last) return;
  forbidden().ranges.erase(first);
  for_each_page(address, bytes, [](std::uintptr_t page) {
    if (--forbidden().pages[page] > 0) return;
    forbidden().pages.erase(page);
    protect_page(page, PROT_READ | PROT_WRITE);
  });
}

void open_forbidden() {
  const std::scoped_lock lock(forbidden().lock);
  for (const auto& [page, ranges] : forbidden().pages) protect_page(page, PROT_READ | PROT_WRITE);
}

void close_forbidden() {
  const std::scoped_lock lock(forbidden().lock);
  for (const auto& [page, ranges] : forbidden().pages) protect_page(page, PROT_NONE);
}

void watch_faults(void (*explain)(const std::byte* address, bool is_write)) {
  explain_other = explain;
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  action.sa_sigaction = on_fault;
  sigaction(SIGSEGV, &action, &before_segv);
  action.sa_sigaction = on_step;
  sigaction(SIGTRAP, &action, &before_trap);
}

}  // namespace emulated_gpu
