// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/multiprocessor.hpp"

#include <algorithm>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

#include "emulated_gpu/device/violation.hpp"
#include "emulated_gpu/kernel/source_line.hpp"

namespace emulated_gpu {
namespace {

constexpr std::size_t stack_bytes_of_thread = std::size_t{64} << 10;

}  // namespace

constinit thread_local Running* running = nullptr;

Multiprocessor& Multiprocessor::instance() {
  static auto* processor = new Multiprocessor;  // its stacks may be in use when the process ends
  return *processor;
}

void Multiprocessor::begin_block(const KernelCall& call, uint3 block) {
  const dim3 extent = call.block;
  const unsigned count = extent.x * extent.y * extent.z;
  const dim3 before = std::exchange(now_.block_extent, extent);
  if (before.x != extent.x || before.y != extent.y || count != count_) {
    threads_.resize(std::max<std::size_t>(threads_.size(), count));
    values_.resize(threads_.size());
    indices_.resize(threads_.size());
    for (unsigned i = 0; i < count; ++i) indices_[i] = {i % extent.x, i / extent.x % extent.y, i / extent.x / extent.y};
  }
  call_ = &call;
  count_ = count;
  done_ = 0;
  now_.block = block;
  now_.grid_extent = call.grid;
  now_.gpu = call.gpu;
  for (unsigned i = 0; i < count; ++i) {
    threads_[i].number = i;
    threads_[i].is_done = false;
  }
  shared_.restart(call.shared_bytes);
  conflicts_.meet();
}

template <typename Iterator>
void Multiprocessor::shuffle(Iterator begin, Iterator end) {
  for (auto at = begin; at != end; ++at) {
    const auto place = random_->below(static_cast<std::uint64_t>(at - begin) + 1);
    std::iter_swap(at, begin + static_cast<std::ptrdiff_t>(place));
  }
}

void Multiprocessor::line_up() {
  warps_.clear();
  for (unsigned first = 0; first < count_; first += lanes_of_warp) warps_.push_back(first);
  shuffle(warps_.begin(), warps_.end());
  const std::uint64_t manner = random_->below(3);
  for (const unsigned first : warps_) {
    const auto begin = static_cast<std::ptrdiff_t>(runnable_.size());
    for (unsigned i = first; i < std::min(first + lanes_of_warp, count_); ++i) runnable_.push_back(&threads_[i]);
    if (manner == 1) std::reverse(runnable_.begin() + begin, runnable_.end());
    if (manner == 2) shuffle(runnable_.begin() + begin, runnable_.end());
  }
}

void Multiprocessor::run(const KernelCall& call, uint3 block, Random& random) {
  random_ = &random;
  begin_block(call, block);
  line_up();
  for (;;) {
    while (!runnable_.empty()) resume_next();
    if (done_ == count_) break;
    release_block();
  }
}

/// Stores where its stack is.
struct StackOfWorker {
  using Allocator = boost::context::protected_fixedsize_stack;
  using traits_type = Allocator::traits_type;
  boost::context::stack_context allocate() {
    boost::context::stack_context stack = Allocator(stack_bytes_of_thread).allocate();
    *bytes = stack.size;
    *begin = reinterpret_cast<std::uintptr_t>(stack.sp) - stack.size;
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) { Allocator(stack_bytes_of_thread).deallocate(stack); }
  std::uintptr_t* begin;
  std::size_t* bytes;
};

std::unique_ptr<Multiprocessor::Worker> Multiprocessor::new_worker() {
  auto made = std::make_unique<Worker>();
  Worker& worker = *made;
  worker.fiber = boost::context::fiber(std::allocator_arg, StackOfWorker{&worker.stack, &worker.stack_bytes},
                                       [this, &worker](boost::context::fiber&& caller) {
                                         worker.caller = std::move(caller);
                                         for (;;) {
                                           run_threads(worker);
                                           worker.caller = std::move(worker.caller).resume();
                                         }
                                         return std::move(worker.caller);
                                       });
  return made;
}

/// Runs threads. Most of them never wait, so they run one after the other without a switch.
void Multiprocessor::run_threads(Worker& worker) {
  while (!runnable_.empty() && runnable_.back()->worker == nullptr) {
    Thread& thread = *runnable_.back();
    runnable_.pop_back();
    thread.worker = &worker;
    switch_to(thread, worker);
    call_->thread();
    running = nullptr;
    worker.thread->worker = nullptr;
    worker.thread->is_done = true;
    ++done_;
  }
  worker.thread = nullptr;
}

void Multiprocessor::switch_to(Thread& thread, Worker& worker) {
  worker.thread = &thread;
  now_.number = thread.number;
  now_.thread = indices_[thread.number];
  now_.stack = worker.stack;
  now_.stack_bytes = worker.stack_bytes;
}

void Multiprocessor::resume_next() {
  Worker* worker = runnable_.back()->worker;
  if (worker != nullptr) {
    switch_to(*runnable_.back(), *worker);
    runnable_.pop_back();
  } else {
    if (idle_.empty()) idle_.push_back(workers_.emplace_back(new_worker()).get());
    worker = idle_.back();
    idle_.pop_back();
  }
  worker->fiber = std::move(worker->fiber).resume();
  if (worker->thread == nullptr) idle_.push_back(worker);
}

/// Waits until another thread makes this one runnable.
void Multiprocessor::park() {
  Worker& worker = *threads_[now_.number].worker;
  worker.caller = std::move(worker.caller).resume();
}

void Multiprocessor::may_be_overtaken() {
  if (!random_->one_in(16)) return;
  Thread& thread = threads_[now_.number];
  const auto place = random_->below(runnable_.size() + 1);
  runnable_.insert(runnable_.begin() + static_cast<std::ptrdiff_t>(place), &thread);
  park();
}

unsigned Multiprocessor::wait_for_block(bool predicate, const char* function, const std::source_location& place) {
  Thread& thread = threads_[now_.number];
  thread.waits = Wait::block;
  thread.predicate = predicate;
  thread.function = function;
  thread.place = place;
  park();
  return predicates_;
}

bool Multiprocessor::is_at_barrier(const Thread& thread, const Thread& other) {
  const auto is_same_file = [](const char* one, const char* another) {  // mostly one text, which need not be read
    return one == another || std::string_view(one) == another;
  };
  return !thread.is_done && thread.waits == Wait::block && thread.place.line() == other.place.line() &&
         thread.place.column() == other.place.column() &&
         is_same_file(thread.place.file_name(), other.place.file_name());
}

/// No thread can continue, so all must be at the same barrier.
void Multiprocessor::release_block() {
  const auto end = threads_.begin() + count_;
  if (!std::all_of(threads_.begin(), end, [this](const Thread& one) { return is_at_barrier(one, threads_.front()); }))
    explain_why_stuck();
  predicates_ = 0;
  for (unsigned i = 0; i < count_; ++i) {
    predicates_ += threads_[i].predicate ? 1 : 0;
    threads_[i].waits = Wait::nothing;
  }
  conflicts_.meet();
  line_up();
}

unsigned Multiprocessor::lanes_of_its_warp() const {
  const unsigned left = count_ - now_.number / lanes_of_warp * lanes_of_warp;
  return left >= lanes_of_warp ? ~0U : (1U << left) - 1;
}

const LaneValues& Multiprocessor::wait_for_lanes(unsigned mask, std::uint64_t value, bool orders, const char* function,
                                                 const std::source_location& place) {
  Thread& thread = threads_[now_.number];
  if ((mask >> now_.lane() & 1U) == 0)
    violate(std::string(function) + " with a mask without the lane that calls it", source_line(place));
  thread.waits = Wait::lanes;
  thread.mask = mask & lanes_of_its_warp();
  thread.value = value;
  thread.orders = orders;
  thread.function = function;
  thread.place = place;
  const bool is_alone = release_lanes(thread) && thread.mask == 1U << now_.lane();
  if (!is_alone) park();
  return values_[thread.number];
}

/// If this is the last of the lanes in its mask, makes all of them runnable, in any order. @return whether it is
bool Multiprocessor::release_lanes(const Thread& last) {
  const unsigned first = last.number / lanes_of_warp * lanes_of_warp;
  std::array<Thread*, lanes_of_warp> lanes{};
  LaneValues values{};
  auto end = lanes.begin();
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
    if ((last.mask >> lane & 1U) == 0) continue;
    Thread& other = threads_[first + lane];
    const bool is_with_us = !other.is_done && other.waits == Wait::lanes && other.mask == last.mask &&
                            std::string_view(other.function) == last.function;
    if (!is_with_us) return false;
    values[lane] = other.value;
    *end++ = &other;
  }
  if (last.orders) conflicts_.meet(first / lanes_of_warp, last.mask);
  for (auto lane = lanes.begin(); lane != end; ++lane) {
    (*lane)->waits = Wait::nothing;
    values_[(*lane)->number] = values;
  }
  if (end - lanes.begin() == 1) return true;  // it continues at once
  shuffle(lanes.begin(), end);
  runnable_.insert(runnable_.end(), lanes.begin(), end);
  return true;
}

std::string Multiprocessor::index_of(unsigned thread) const {
  const uint3 index = indices_[thread];
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

void Multiprocessor::violate(const std::string& what, const std::string& line) const {
  running = nullptr;
  const uint3 block = now_.block;
  violation("kernel " + call_->kernel + ", block (" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " +
            std::to_string(block.z) + "), thread " + index_of(now_.number) + ", at " + line + ": " + what);
}

}  // namespace emulated_gpu
