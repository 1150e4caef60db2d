// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/prefetcher.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

/// Memory of one batch, and what is known of it.
struct Prefetched {
  Allocation images;
  std::vector<std::int32_t> labels;
  Batch batch;
  bool ready = false;        ///< made, or failed
  std::exception_ptr error;  ///< why it failed
};

int checked(int workers) {
  if (workers < 0)
    throw Error(ErrorCode::invalid_argument,
                "the number of workers must not be negative, not " + std::to_string(workers));
  return workers;
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

/// Step s lives in entry s modulo the ring's size. Workers draw steps in order while the entry of the next one is free;
/// the trainer takes them in order. One mutex guards everything but the memory of a batch in the making.
class Prefetcher::Impl {
 public:
  Impl(BatchMaker maker, DistributedSampler sampler, const PrefetchOptions& options)
      : maker_(std::move(maker)), sampler_(std::move(sampler)), observer_(options.observer) {
    const int workers = checked(options.workers);
    // One entry for the batch in use, one for the next, and one for each batch in the making.
    entries_.resize(workers == 0 ? 1 : static_cast<std::size_t>(workers) + 2);
    for (Prefetched& entry : entries_) allocate(entry);
    try {
      for (int i = 0; i < workers; ++i)
        threads_.emplace_back([this, track = "data " + std::to_string(i)] { work(track); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start_epoch(std::int64_t epoch, std::int64_t first_step) {
    if (first_step < 0 || first_step > sampler_.steps())
      throw Error(ErrorCode::invalid_argument, "an epoch of " + std::to_string(sampler_.steps()) +
                                                   " steps cannot begin at step " + std::to_string(first_step));
    {
      std::unique_lock lock(mutex_);
      end_ = 0;  // no worker draws another step
      changed_.wait(lock, [this] { return busy_ == 0; });
      sampler_.start_epoch(epoch);
      for (Prefetched& entry : entries_) entry.ready = false;
      drawn_ = taken_ = in_use_ = first_step;
      end_ = sampler_.steps();
    }
    changed_.notify_all();
  }

  const Batch* next() {
    const auto begin = Clock::now();
    const Batch* batch = threads_.empty() ? make_here() : take();
    const auto end = Clock::now();
    waited_seconds_ += seconds(end - begin);
    if (observer_ != nullptr && batch != nullptr) observer_->span({"compute", "wait for data", begin, end, {}});
    return batch;
  }

  [[nodiscard]] const DistributedSampler& sampler() const { return sampler_; }
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void allocate(Prefetched& entry) const {
    const std::int64_t samples = sampler_.largest_share().value;
    entry.images = allocate_host({samples * maker_.sample_elements() * size_of(maker_.dtype())});
    entry.labels.resize(static_cast<std::size_t>(samples));
  }

  Prefetched& entry_of(std::int64_t step) { return entries_[static_cast<std::size_t>(step) % entries_.size()]; }

  /// Fills the entry of a step, with the batch or with the reason why there is none.
  void make(std::int64_t step, Prefetched& entry, std::string_view track) noexcept {
    const auto begin = Clock::now();
    entry.error = nullptr;
    try {
      const auto indices = sampler_.indices(step);
      const Count count{static_cast<std::int64_t>(indices.size())};
      const Buffer images = slice(entry.images.as(maker_.dtype()), {0}, {count.value * maker_.sample_elements()});
      maker_.make(indices, images, entry.labels);
      entry.batch = {step, count, sampler_.step_samples(step), images, std::span(entry.labels).first(indices.size())};
      if (observer_ != nullptr) observer_->span({track, "make batch", begin, Clock::now(), images.bytes()});
    } catch (...) {
      entry.error = std::current_exception();
    }
  }

  const Batch* make_here() {
    if (taken_ == end_) return nullptr;
    Prefetched& entry = entries_.front();
    make(taken_, entry, "data");
    if (entry.error) std::rethrow_exception(entry.error);
    ++taken_;
    return &entry.batch;
  }

  const Batch* take() {
    std::unique_lock lock(mutex_);
    if (in_use_ != taken_) {  // the batch handed out last is done with
      entry_of(in_use_).ready = false;
      in_use_ = taken_;
      changed_.notify_all();
    }
    if (taken_ == end_) return nullptr;
    Prefetched& entry = entry_of(taken_);
    changed_.wait(lock, [&entry] { return entry.ready; });
    if (entry.error) std::rethrow_exception(entry.error);
    ++taken_;
    return &entry.batch;
  }

  void work(std::string_view track) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || can_draw(); });
      if (stopping_) return;
      const std::int64_t step = drawn_++;
      Prefetched& entry = entry_of(step);
      ++busy_;
      lock.unlock();
      make(step, entry, track);
      lock.lock();
      --busy_;
      entry.ready = true;
      changed_.notify_all();
    }
  }

  [[nodiscard]] bool can_draw() const {
    return drawn_ < end_ && drawn_ < in_use_ + static_cast<std::int64_t>(entries_.size());
  }

  BatchMaker maker_;
  DistributedSampler sampler_;
  Observer* observer_;
  std::vector<Prefetched> entries_;
  double waited_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  int busy_ = 0;             ///< batches in the making
  std::int64_t end_ = 0;     ///< steps of the epoch
  std::int64_t drawn_ = 0;   ///< the step that a worker makes next
  std::int64_t taken_ = 0;   ///< the step that next() returns next
  std::int64_t in_use_ = 0;  ///< the oldest step whose entry is not free
  std::vector<std::thread> threads_;
};

Prefetcher::Prefetcher(BatchMaker maker, DistributedSampler sampler, const PrefetchOptions& options)
    : impl_(std::make_unique<Impl>(std::move(maker), std::move(sampler), options)) {}
Prefetcher::~Prefetcher() = default;

void Prefetcher::start_epoch(std::int64_t epoch, std::int64_t first_step) { impl_->start_epoch(epoch, first_step); }
const Batch* Prefetcher::next() { return impl_->next(); }
const DistributedSampler& Prefetcher::sampler() const { return impl_->sampler(); }
double Prefetcher::waited_seconds() const { return impl_->waited_seconds(); }

}  // namespace lockstep::data
