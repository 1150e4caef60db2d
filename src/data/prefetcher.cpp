// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/prefetcher.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "data/batch_ring.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

/// What one thread does for batches, as spans: one for each batch, from the first to the last of its samples that the
/// thread reads. A thread takes samples in order, so its spans do not overlap.
class MakingSpans {
 public:
  MakingSpans(Observer* observer, std::string_view track) : observer_(observer), track_(track) {}

  [[nodiscard]] Clock::time_point now() const { return observer_ != nullptr ? Clock::now() : Clock::time_point{}; }
  void add(const SampleRun& run, Clock::time_point begin, Bytes bytes) {
    if (observer_ == nullptr) return;
    if (is_open_ && (run.step != step_ || run.epoch != epoch_)) end();
    if (!is_open_) begin_ = begin;
    is_open_ = true;
    epoch_ = run.epoch;
    step_ = run.step;
    end_ = Clock::now();
    bytes_.value += bytes.value;
    if (run.is_last) end();
  }
  void end() {
    if (is_open_) observer_->span({track_, "make batch", begin_, end_, bytes_});
    is_open_ = false;
    bytes_ = {};
  }

 private:
  Observer* observer_;
  std::string_view track_;
  bool is_open_ = false;
  std::int64_t epoch_ = 0;
  std::int64_t step_ = 0;
  Clock::time_point begin_;
  Clock::time_point end_;
  Bytes bytes_;
};

}  // namespace

/// Workers draw runs of samples from the ring, in the order of the epoch; the trainer takes the batches in order. One
/// mutex guards everything except the memory of samples that are being read.
class Prefetcher::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler, const PrefetchOptions& options)
      : ring_(std::move(dataset), real, std::move(sampler), options), observer_(options.observer) {
    const auto workers = static_cast<std::size_t>(options.workers);
    slots_.assign(workers > 0 ? workers : 1, std::vector<Buffer>(ring_.tensors()));
    try {
      for (std::size_t i = 0; i < workers; ++i)
        threads_.emplace_back([this, i, track = "data " + std::to_string(i)] { work(track, slots_[i]); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start_epoch(std::int64_t epoch, std::int64_t first_step) {
    if (first_step < 0 || first_step > sampler().steps())
      throw Error(ErrorCode::invalid_argument, "an epoch of " + std::to_string(sampler().steps()) +
                                                   " steps cannot begin at step " + std::to_string(first_step));
    begin_at(first_step, [&] { ring_.start_epoch(epoch); });
  }

  void move_shards(const LeafShares& shards) {
    begin_at(ring_.next_step(), [&] { ring_.move_shards(shards); });
  }

  const Batch* next() {
    const auto begin = Clock::now();
    const Batch* batch = take();
    const auto end = Clock::now();
    waited_seconds_ += seconds(end - begin);
    if (observer_ != nullptr && batch != nullptr) observer_->span({"compute", "wait for data", begin, end, {}});
    return batch;
  }

  [[nodiscard]] const DistributedSampler& sampler() const { return ring_.sampler(); }
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

 private:
  /// Makes a change while no worker reads samples, and drops all batches. The next one is that of `step`.
  template <typename Change>
  void begin_at(std::int64_t step, const Change& change) {
    std::unique_lock lock(mutex_);
    ring_.pause();
    ready_.wait(lock, [this] { return !ring_.is_reading(); });
    ring_.begin_at(step);
    room_.notify_all();  // workers go on behind this lock, also if the change fails
    change();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const Batch* take() {
    std::unique_lock lock(mutex_);
    if (ring_.release()) room_.notify_all();
    if (ring_.has_ended()) return nullptr;
    PreparedBatch& front = ring_.front();
    if (threads_.empty()) make(front);
    ready_.wait(lock, [&front] { return front.is_ready; });
    if (front.error) std::rethrow_exception(front.error);
    ring_.take();
    return &front.batch;
  }

  /// Prepares a batch on the caller's thread.
  void make(const PreparedBatch& batch) {
    MakingSpans spans(observer_, "data");
    while (!batch.is_ready) {
      const SampleRun run = ring_.draw();
      ring_.finish(run, read(run, slots_.front(), spans));
    }
  }

  void work(std::string_view track, std::span<Buffer> slots) {
    MakingSpans spans(observer_, track);
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [this] { return stopping_ || ring_.can_draw(); });
      if (stopping_) return spans.end();
      const SampleRun run = ring_.draw();
      lock.unlock();
      const ReadFailure failure = read(run, slots, spans);
      lock.lock();
      if (ring_.finish(run, failure) || !ring_.is_reading()) ready_.notify_one();
    }
  }

  ReadFailure read(const SampleRun& run, std::span<Buffer> slots, MakingSpans& spans) {
    const auto begin = spans.now();
    ReadFailure failure = ring_.read(run, slots);
    if (!failure.error) spans.add(run, begin, ring_.bytes_of(run));
    return failure;
  }

  BatchRing ring_;
  Observer* observer_;
  std::vector<std::vector<Buffer>> slots_;  ///< scratch of each thread
  double waited_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable room_;   ///< workers may draw, or shall stop
  std::condition_variable ready_;  ///< a batch is ready, or no worker reads
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler,
                       const PrefetchOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), real, std::move(sampler), options)) {}
Prefetcher::~Prefetcher() = default;

void Prefetcher::start_epoch(std::int64_t epoch, std::int64_t first_step) { impl_->start_epoch(epoch, first_step); }
void Prefetcher::move_shards(const LeafShares& shards) { impl_->move_shards(shards); }
const Batch* Prefetcher::next() { return impl_->next(); }
const DistributedSampler& Prefetcher::sampler() const { return impl_->sampler(); }
double Prefetcher::waited_seconds() const { return impl_->waited_seconds(); }

}  // namespace lockstep::data
