// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/process.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers,hicpp-deprecated-headers): for sigaction
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signal_stack.hpp"
#include "base/wrapped.hpp"
#include "platform/machine/launch.hpp"

namespace lockstep {
namespace {

std::filesystem::path folder_of(int process) { return std::filesystem::path("/proc") / std::to_string(process); }

std::uint64_t processor_time(const std::filesystem::path& task) {
  std::istringstream fields = stat_fields(task);
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;  // from the state to the major faults of children
  std::uint64_t in_user_mode = 0;
  std::uint64_t in_the_kernel = 0;
  fields >> in_user_mode >> in_the_kernel;
  return in_user_mode + in_the_kernel;
}

std::uint64_t bytes_moved(const std::filesystem::path& task) {
  std::ifstream file(task / "io");
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
  for (std::string name; file >> name >> value;)
    if (name == "rchar:" || name == "wchar:") bytes += value;
  return bytes;
}

int thread_id() { return static_cast<int>(syscall(SYS_gettid)); }
std::string this_thread() { return std::to_string(thread_id()); }

/// The threads that are onlookers, which lives until the process ends.
struct Onlookers {
  std::mutex mutex;
  std::set<std::string> threads;
};

Onlookers& onlookers() {
  static Onlookers all;
  return all;
}

constexpr int stack_signal = SIGURG;

/// What the handler of one thread fills.
struct Request {
  std::atomic<int> thread;  // set last by who asks, cleared by the handler when it has begun
  std::atomic<bool> is_answered;
  std::array<void*, 64> frames;
  int count;
};

// A signal handler can reach only static data. It stays alive, since a thread may answer at any later time.
std::atomic<Request*> current{nullptr};

void handle(int /*signal*/) {
  const int error = errno;
  Request* const request = current.load(std::memory_order_acquire);
  int mine = thread_id();
  if (request != nullptr && request->thread.compare_exchange_strong(mine, 0)) {
    request->count = backtrace(request->frames.data(), static_cast<int>(request->frames.size()));
    request->is_answered.store(true, std::memory_order_release);
  }
  errno = error;
}

std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  const std::string text = status == 0 ? name.get() : symbol;
  // Without its parameters, as a debugger names it.
  std::size_t end = text.find('(');
  while (end != std::string::npos &&
         (text.compare(end, 11, "(anonymous ") == 0 || (end >= 8 && text.compare(end - 8, 8, "operator") == 0)))
    end = text.find('(', end + 1);
  return text.substr(0, end);
}

std::string frame_name(void* address) {
  Dl_info found{};
  if (dladdr(address, &found) == 0 || found.dli_fname == nullptr) return format_text("%p", address);
  if (found.dli_sname != nullptr) return readable(found.dli_sname);
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(found.dli_fbase);
  return std::filesystem::path(found.dli_fname).filename().string() + format_text("+0x%zx", offset);
}

/// Whether a thread can be interrupted without harm: a running one needs a stack for signals. One that sleeps does so
/// in a system call, whose caller has its own stack in use.
bool may_be_interrupted(int thread) {
  if (has_signal_stack(thread)) return true;
  char state = 'R';
  stat_fields(std::filesystem::path("/proc/self/task") / std::to_string(thread)) >> state;
  return state == 'S';
}

/// Asks a thread for its stack, in a Request that lives on if the thread does not answer.
std::vector<std::string> stack_of(int thread) {
  if (!may_be_interrupted(thread)) return {};
  auto request = std::make_unique<Request>();
  current.store(request.get(), std::memory_order_release);
  request->thread.store(thread, std::memory_order_release);
  if (syscall(SYS_tgkill, getpid(), thread, stack_signal) != 0) return {};
  constexpr std::chrono::milliseconds patience{100};
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!request->is_answered.load(std::memory_order_acquire)) {
    if (std::chrono::steady_clock::now() > end) {
      int unanswered = thread;
      if (request->thread.compare_exchange_strong(unanswered, -1)) current.store(nullptr);
      (void)request.release();
      return {};
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  constexpr int of_the_handler = 2;  // the handler itself, and the kernel's return from it
  std::vector<std::string> frames;
  for (int i = of_the_handler; i < request->count && (frames.empty() || frames.back() != "main"); ++i)
    frames.push_back(frame_name(request->frames[static_cast<std::size_t>(i)]));
  current.store(nullptr);
  return frames;
}

}  // namespace

int parent_of(int process) {
  char state = ' ';
  int parent = 0;
  stat_fields(folder_of(process)) >> state >> parent;
  return parent;
}

std::string process_state(int process) {
  char state = ' ';
  stat_fields(folder_of(process)) >> state;
  switch (state) {
    case 'R': return "running";
    case 'S':
    case 'I': return "sleeping";
    case 'T':
    case 't': return "stopped";
    case 'D': return "in an uninterruptible wait";
    default: return "gone";
  }
}

std::uint64_t work_of_other_threads() {
  std::set<std::string> left_out = {this_thread()};
  {
    const std::lock_guard lock(onlookers().mutex);
    left_out.insert(onlookers().threads.begin(), onlookers().threads.end());
  }
  std::uint64_t work = 0;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none))
    if (!left_out.contains(task.path().filename())) work += processor_time(task) + bytes_moved(task);
  return work;
}

Onlooker::Onlooker() {
  const std::lock_guard lock(onlookers().mutex);
  onlookers().threads.insert(this_thread());
}

Onlooker::~Onlooker() {
  const std::lock_guard lock(onlookers().mutex);
  onlookers().threads.erase(this_thread());
}

bool prepare_for_stacks() {
  use_signal_stack();
  struct sigaction before {};
  if (sigaction(stack_signal, nullptr, &before) != 0) return false;
  if (before.sa_handler == handle) return true;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return false;
  std::array<void*, 1> frame{};
  (void)backtrace(frame.data(), 1);  // loads what later calls need, which a handler must not
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  return sigaction(stack_signal, &action, nullptr) == 0;
}

std::vector<ThreadStack> stacks_of_other_threads() {
  static std::mutex mutex;  // a process may have several watchdogs, one for each set of ranks that is watched
  const std::lock_guard lock(mutex);
  std::vector<ThreadStack> stacks;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    ThreadStack stack{.thread = std::atoi(task.path().filename().c_str())};
    if (stack.thread == thread_id()) continue;
    std::getline(std::ifstream(task.path() / "comm"), stack.name);
    stacks.push_back(std::move(stack));
  }
  // Linux starts again with small thread ids when it has reached its largest, so the first thread's need not be the
  // smallest of its process.
  std::sort(stacks.begin(), stacks.end(), [first = getpid()](const auto& a, const auto& b) {
    return std::pair(a.thread != first, a.thread) < std::pair(b.thread != first, b.thread);
  });
  for (ThreadStack& stack : stacks) stack.frames = stack_of(stack.thread);
  return stacks;
}

}  // namespace lockstep
